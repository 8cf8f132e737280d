"""The rows of attacks that are trained on shadow models: RecoNN, kernel, black box."""

import dataclasses

from informed.attacks.attack_row import Material
from informed.attacks.reconn import ReconnAttack
from reconn import trainer
from reconn.config import ReconnConfig
from shadow import checks


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelReconnConfig(ReconnConfig):
    """`reconn.ReconnConfig`, with the kernel regression by default."""

    kind: str = "kernel"


def make(config: ReconnConfig, material: Material) -> ReconnAttack:
    """Train the reconstructor on the adversary's shadow models.

    Raises: FieldError: there are no shadow models.
    """
    if material.shadows is None:
        raise checks.FieldError("type", "{} needs shadow models; there are none.")
    shadows = material.shadows
    return ReconnAttack(
        trainer.train(
            shadows,
            config,
            key=material.key,
            workdir=material.workdir,
            view=material.view,
            progress=material.progress,
            on_epoch=material.note or (lambda: None),
        ),
        held_out=lambda: trainer.held_out(shadows, config),
    )
