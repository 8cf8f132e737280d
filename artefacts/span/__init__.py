"""The target off the span of the known rows, out of weights as they are.

Where inputs first meet a dense layer, a released model holds the direction of the
missing row off the span of the known ones, converged or not: no training code, no seed,
no loss. It needs more features than known rows. docs/span.md has the proof.

basis        projections off the span, dense or sparse
precision    what released numbers were rounded to
direction    `read`: the direction, its error, the number of missing rows
rows         `complete`, to a row, by what the known rows are made of:
levels       to a row of whole numbers;  columns: which values columns take
sparse       to a bag of words
gallery      to a name
several      `complete_all`: several missing rows;  pairs: two of one output
space, messages, exchange: what levels and pairs share
probe        whether a training leaves its weights in the span: by a small one
"""

from artefacts.span.completion import Completion
from artefacts.span.direction import Direction, read
from artefacts.span.gallery import rank
from artefacts.span.rows import complete
from artefacts.span.several import complete_all

__all__ = ["Completion", "Direction", "complete", "complete_all", "rank", "read"]
