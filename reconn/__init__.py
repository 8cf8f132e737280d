"""The learned attack: a reconstructor network from weights to images.

features    theta to the network's input
networks    the reconstructors
losses      what they minimise
perceptual  LPIPS
config      architecture and training
batches     rows gathered while the device computes
steps       the compiled steps of an epoch
trainer     training with checkpoints, and the trained reconstructor
"""

from reconn.config import ReconnConfig
from reconn.features import Standardiser
from reconn.trainer import Reconstructor, load, train

__all__ = ["ReconnConfig", "Reconstructor", "Standardiser", "load", "train"]
