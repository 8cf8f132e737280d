"""The learned attack: a reconstructor network from weights to images.

features   theta to the network's input
networks   the reconstructors
losses     what they minimise
trainer    training with checkpoints, and the trained reconstructor
"""

from reconn.features import Standardiser
from reconn.trainer import ReconnConfig, Reconstructor, load, train

__all__ = ["ReconnConfig", "Reconstructor", "Standardiser", "load", "train"]
