"""Learned reconstruction attacks: regressions and networks from weights to images.

`train` learns an attack from shadow models alone. Users call it, and so does
`informed.attacks.shadow_trained` for runs and audits:

    attack = reconn.train(store, reconn.Kernel(), key=key, workdir="runs/x")
    guess = attack(releases, knowledge, key=key)
    attack = reconn.load("runs/x")
"""

from typing import TYPE_CHECKING

from dp import lazy

if TYPE_CHECKING:
    from reconn.features import Standardiser
    from reconn.kernel import Kernel
    from reconn.modules import Mlp as mlp
    from reconn.modules import TransposedCnn as transposed_cnn
    from reconn.network import Network
    from reconn.objective import Loss
    from reconn.optimisers import adam_cosine, rmsprop
    from reconn.reconstructor import Reconstructor, load
    from reconn.refined import Refined
    from reconn.residual import ResidualCnn as residual_cnn
    from reconn.trainer import train

__getattr__, __dir__, __all__ = lazy.names(
    __name__,
    {
        "reconn.features": "Standardiser",
        "reconn.kernel": "Kernel",
        "reconn.modules": "mlp=Mlp transposed_cnn=TransposedCnn",
        "reconn.network": "Network",
        "reconn.objective": "Loss",
        "reconn.optimisers": "adam_cosine rmsprop",
        "reconn.reconstructor": "Reconstructor load",
        "reconn.refined": "Refined",
        "reconn.residual": "residual_cnn=ResidualCnn",
        "reconn.trainer": "train",
    },
)
