"""Build `reconn`'s attacks for the registry, which `reconn` itself mustn't import."""

import reconn
from informed.attacks.attack_row import Material
from informed.experiment.reconn_settings import ReconnConfig
from shadow import checks


def make(config: ReconnConfig, material: Material) -> reconn.Reconstructor:
    """Train `kernel`, `refined`, `black_box` or `reconn` on the shadow models.

    Raises: FieldError: there are no shadow models.
    """
    if material.shadows is None:
        raise checks.FieldError("type", "{} needs shadow models; there are none.")
    return reconn.train(
        material.shadows,
        config.method(),
        key=material.key,
        workdir=material.workdir,
        view=material.view,
        progress=material.progress,
        on_epoch=material.note or (lambda: None),
    )
