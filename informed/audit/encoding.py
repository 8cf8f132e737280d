"""Pictures by a frozen encoder: what a head is trained on, made once before all else.

    informed audit head.py:train --encoder mine.py:encode --data pictures/

`encode(images) -> embeddings` is given images (batch, height, width, channels) in
[0, 1] and returns numbers (batch, dimensions). It is the user's; only the head's
training is attacked, and the pictures stay beside their embeddings for the page.
"""

from collections.abc import Callable

import numpy as np

from informed.audit import contract
from shadow import checks, tables
from shadow.data import Examples
from shadow.tables import Table

# Pictures at once: 100 of 224 x 224 in colour are 60 MB in float32.
_TOGETHER = 100


def encoded(encoder: str | Callable, examples: Examples, table: Table | None) -> Table:
    """Embeddings of examples, with the pictures behind them.

    Args:
      encoder: encode(images), or "mine.py:encode".
      examples: pictures and labels.
      table: the table that the examples are rows of; None: they are pictures.
    Raises: ValueError: there are no pictures, the encoder raises, or what comes back
      isn't one finite row of numbers for each, of one length.
    """
    if table is not None:
        raise checks.FieldError(
            "encoder", f"{{}} takes pictures, got a table, {examples.name}."
        )
    call = encoder
    if isinstance(encoder, str):
        _, module, name = contract.function_in(encoder, "encoder")
        call = getattr(module, name)
    assert callable(call)
    parts: list[np.ndarray] = []
    for start in range(0, len(examples), _TOGETHER):
        images = examples.images[start : start + _TOGETHER]
        try:
            part = np.asarray(call(images))
        # A user's function may raise anything.
        except Exception as error:
            raise ValueError(
                f"encoder raised {type(error).__name__}: {error}"
            ) from error
        wanted = (len(images), *(parts[0].shape[1:] if parts else part.shape[1:2]))
        if part.shape != wanted or part.ndim != 2:
            raise ValueError(
                f"Expected encoder to return (batch, dimensions) for a batch of"
                f" {len(images)}, got {part.shape}"
                + (f" after {parts[0].shape}." if parts else ".")
            )
        if not np.isfinite(part).all():
            raise ValueError(
                f"Expected encoder to return finite numbers, found others for images"
                f" {start} to {start + len(images) - 1}."
            )
        parts.append(part)
    return tables.embedded(
        np.concatenate(parts),
        examples.labels,
        name=examples.name,
        behind=np.asarray(examples.images),
    )
