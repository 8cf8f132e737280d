"""The learned attacks: reconstructors from weights to images.

views       what is seen of theta: weights, layers, black-box logits
features    a view to the network's input
kernel      the reconstructor in closed form: its regressions, and
second_look what theta has beyond their answer
networks    the reconstructor networks
losses      what they minimise
perceptual  LPIPS
config      architecture and training
batches     rows gathered while the device computes
placement   several devices
steps       the compiled steps of an epoch
saving      a trained reconstructor as one .safetensors file
trainer     training with checkpoints, and the trained reconstructor
"""

from typing import TYPE_CHECKING

from dp import lazy

if TYPE_CHECKING:
    from reconn.config import ReconnConfig
    from reconn.features import Standardiser
    from reconn.kernel import KernelConfig
    from reconn.losses import LossConfig
    from reconn.trainer import Reconstructor, load, train
    from shadow.views import View, ViewConfig

__getattr__, __dir__, __all__ = lazy.names(
    __name__,
    {
        "reconn.config": "ReconnConfig",
        "reconn.features": "Standardiser",
        "reconn.kernel": "KernelConfig",
        "reconn.losses": "LossConfig",
        "reconn.trainer": "Reconstructor load train",
        "shadow.views": "View ViewConfig",
    },
)
