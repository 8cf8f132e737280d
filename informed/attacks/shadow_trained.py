"""Train the attacks of the package `reconn` as rows of the registry describe them.

`Row.attack` calls `make`, in runs and audits; it writes into the material's `workdir`.
`reconn` may not import `informed`, so it is here.
"""

import reconn
from informed.attacks.attack_row import Material
from informed.experiment.reconn_settings import ReconnConfig
from shadow import checks


def make(config: ReconnConfig, material: Material) -> reconn.Reconstructor:
    """Return `kernel`, `refined`, `black_box` or `reconn`, trained on shadow models.

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
