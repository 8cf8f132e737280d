"""Attacks by name: what each sees, needs to be told, and gives.

A new attack is one file with a callable of one of the protocols in `informed.threat`,
a frozen dataclass of settings, and one row here; or a call of `register` from the
user's own module. The command line, the evaluation, sweeps and the contract test over
all attacks pick it up by its name: `config.attacks.NAME = {"type": ...}`.
"""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxtyping import Array

from informed.attacks import prior_aware
from informed.attacks.closed_form import GlmAttack, GlmConfig
from informed.attacks.inversion import InversionConfig, TrainingInversion
from informed.attacks.inversion.config import REVISION as INVERSION_REVISION
from informed.attacks.mean_image import MeanImage, MeanImageConfig
from informed.attacks.membership import RetrainingMembership
from informed.attacks.reconn import ReconnAttack
from informed.attacks.stationary import StationaryAttack, StationaryConfig
from informed.attacks.stationary.config import REVISION as STATIONARY_REVISION
from reconn import trainer
from reconn.config import ReconnConfig
from shadow import checks
from shadow.models import ShadowModels
from shadow.store import ShadowStore
from shadow.views import EVERYTHING, View

PROTOCOLS = ("reconstruction", "membership", "transcript", "candidates")
SEES = ("nothing", "view", "weights", "every noisy gradient")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Material:
    """What an attack may be prepared with; nothing of it depends on a release.

    Attributes:
      shadows: the adversary's shadow models.
      view: what will be released of the models.
      workdir: takes what the attack prepares and keeps.
      key: the adversary's own randomness.
      progress: show bars.
    """

    shadows: ShadowModels | ShadowStore | None
    view: View = EVERYTHING
    workdir: Path
    key: Array
    progress: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One attack.

    Attributes:
      name: of it.
      about: in a line.
      protocol: "reconstruction" (`threat.Attack`), "membership", "candidates" (weights
        alone: many candidates, no D_-), or "transcript" (private training).
      config: a frozen dataclass of its settings.
      make: (settings, material) -> the attack.
      sees: "nothing", "view" (whatever is released), "weights" (all of them), "every
        noisy gradient".
      knows: what it needs to be told: fields of `threat.Knowledge`, or of
        `uninformed.threat.Architecture` for attacks on weights alone.
      uses: what it uses where it is told.
      gives: fields of what it returns.
      revision: see `shadow.records`.
    """

    name: str
    about: str
    protocol: str
    config: type
    make: Callable[[Any, Material], Any]
    sees: str
    knows: tuple[str, ...]
    uses: tuple[str, ...] = ()
    gives: tuple[str, ...]
    revision: int = 1

    def __post_init__(self) -> None:
        checks.choice("protocol", self.protocol, PROTOCOLS)
        checks.choice("sees", self.sees, SEES)

    @property
    def threat_model(self) -> dict[str, Any]:
        """JSON-able; what `informed attacks --json` prints."""
        fields = ("name", "about", "protocol", "sees", "knows", "uses", "gives")
        values = {field: getattr(self, field) for field in fields}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


_ROWS: dict[str, Row] = {}


def register(row: Row) -> None:
    """Add an attack.

    Raises: ValueError: another one has its name.
    """
    there = _ROWS.get(row.name)
    if there is not None and there.config.__qualname__ != row.config.__qualname__:
        raise ValueError(f"There is an attack called {row.name!r} already.")
    _ROWS[row.name] = row


def rows() -> Mapping[str, Row]:
    """All attacks, by name."""
    return dict(_ROWS)


def find(name: str) -> Row:
    """The attack of a name.

    Raises: FieldError: there is none; names the nearest.
    """
    return _ROWS[checks.choice("type", name, _ROWS)]


def _reconn(config: ReconnConfig, material: Material) -> ReconnAttack:
    if material.shadows is None:
        raise checks.FieldError("type", "{} needs shadow models; there are none.")
    return ReconnAttack(
        trainer.train(
            material.shadows,
            config,
            key=material.key,
            workdir=material.workdir,
            view=material.view,
            progress=material.progress,
        )
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelReconnConfig(ReconnConfig):
    """`reconn.ReconnConfig`, with the kernel regression by default."""

    kind: str = "kernel"


_SHADOWS = ("fixed", "algorithm", "public")  # by way of the shadow models
for _row in (
    Row(
        name="mean_image",
        about="the best guess without the release: the mean public image",
        protocol="reconstruction",
        config=MeanImageConfig,
        make=lambda config, material: MeanImage(config),
        sees="nothing",
        knows=("fixed",),
        uses=("public", "labels"),
        gives=("images",),
    ),
    Row(
        name="reconn",
        about="reconstructor network trained on shadow models (Balle et al. 2022)",
        protocol="reconstruction",
        config=ReconnConfig,
        make=_reconn,
        sees="view",
        knows=_SHADOWS,
        uses=("initialisation",),
        gives=("images",),
        revision=trainer.REVISION,
    ),
    Row(
        name="kernel",
        about="kernel regression on shadow models, a label at a time",
        protocol="reconstruction",
        config=KernelReconnConfig,
        make=_reconn,
        sees="view",
        knows=_SHADOWS,
        uses=("initialisation",),
        gives=("images", "labels"),
        revision=trainer.revisions(KernelReconnConfig())["kernel"],
    ),
    Row(
        name="inversion",
        about="inversion of the training itself; exact, with a certificate",
        protocol="reconstruction",
        config=InversionConfig,
        make=lambda config, material: TrainingInversion(
            config=config, progress=material.progress
        ),
        sees="weights",
        knows=("fixed", "algorithm"),
        uses=("initialisation", "training_key", "public", "labels", "seeds"),
        gives=(
            "images",
            "labels",
            "residuals",
            "certified",
            "exact_if_levels",
            "expected_mse",
            "label_margins",
            "trainings",
        ),
        revision=INVERSION_REVISION,
    ),
    Row(
        name="glm",
        about="closed form for affine victims at their optimum (Theorem 1)",
        protocol="reconstruction",
        config=GlmConfig,
        make=lambda config, material: GlmAttack(config),
        sees="weights",
        knows=("fixed", "algorithm"),
        gives=("images", "labels", "residuals"),
    ),
    Row(
        name="stationary",
        about="the gradient that is left where training converged; no seed needed",
        protocol="reconstruction",
        config=StationaryConfig,
        make=lambda config, material: StationaryAttack(
            config=config, progress=material.progress
        ),
        sees="weights",
        knows=("fixed", "algorithm"),
        uses=("initialisation", "training_key", "public", "labels"),
        gives=("images", "labels", "residuals", "expected_mse"),
        revision=STATIONARY_REVISION,
    ),
    Row(
        name="membership",
        about="which of two candidates: train with both, and compare",
        protocol="membership",
        config=RetrainingMembership,
        make=lambda config, material: config,
        sees="weights",
        knows=("fixed", "algorithm"),
        uses=("initialisation", "training_key"),
        gives=("choice",),
    ),
    Row(
        name="prior_aware",
        about="which of m candidates, from every noisy gradient of private training",
        protocol="transcript",
        config=prior_aware.PriorAwareConfig,
        make=lambda config, material: config,
        sees="every noisy gradient",
        knows=("fixed", "algorithm", "initialisation", "candidates"),
        gives=("log_posterior",),
    ),
):
    register(_row)
