"""Attacks by name: what each sees, needs to be told, and gives; when it applies.

A new attack is one file with a callable of one of the protocols in `shadow.threat`,
a frozen dataclass of settings, and one row here; or a call of `register` from the
user's own module. Everything else picks it up by its name: `informed attacks` lists
it, a run plays it (`config.attacks.NAME = {"type": ...}`), reports compare it, an
audit gives it its share of the time, and the contract test plays it.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

import reconn
from informed.attacks import (
    prior_aware,
    span,
)
from informed.attacks.closed_form import estimator_attack
from informed.attacks.closed_form.affine import GlmAttack
from informed.attacks.closed_form.estimator_attack import EstimatorAttack
from informed.attacks.gallery import GalleryAttack
from informed.attacks.inversion import Inversion, InversionConfig
from informed.attacks.inversion.config import REVISION as INVERSION_REVISION
from informed.attacks.mean_image import MeanImage
from informed.attacks.membership import RetrainingMembership
from informed.attacks.row import Facts, Material, Row
from informed.attacks.stationary import StationaryAttack, StationaryConfig
from informed.attacks.stationary.config import REVISION as STATIONARY_REVISION
from informed.experiment.reconn_settings import KernelReconnConfig, ReconnConfig
from shadow import checks

_ROWS: dict[str, Row] = {}


def register(row: Row) -> None:
    """Add an attack.

    Raises: ValueError: another one has its name.
    """
    there = _ROWS.get(row.name)
    if there is not None and _identity(there) != _identity(row):
        raise ValueError(f"There is an attack called {row.name!r} already.")
    _ROWS[row.name] = row


def _identity(row: Row) -> tuple[str, str]:
    """What stays where a module is loaded a second time, under another name."""
    return row.config.__qualname__, row.about


def rows() -> Mapping[str, Row]:
    """All attacks, by name."""
    return dict(_ROWS)


def find(name: str) -> Row:
    """The attack of a name.

    Raises: FieldError: there is none; names the nearest.
    """
    if name not in _ROWS:
        raise checks.FieldError(
            "type",
            f"Expected {{}} to be one of {', '.join(sorted(_ROWS))}; got {name!r}."
            f"{checks.nearest(name, _ROWS)} One of your own has to be registered: by"
            " the configuration, or with --registers FILE.",
        )
    return _ROWS[name]


def _reconn(config: ReconnConfig, material: Material) -> reconn.Reconstructor:
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


def _inversion(config: InversionConfig, material: Material) -> Inversion:
    """With as many trainings for noise and neighbours as a tenth of the time allows."""
    affordable = material.affordable(_OF_NOISE)
    if affordable is not None:
        config = dataclasses.replace(
            config,
            neighbours=int(np.clip(affordable, *_NEIGHBOURS)),
            noise_draws=int(np.clip(affordable, config.draws, config.noise_draws)),
        )
    return Inversion(config=config, progress=material.progress)


def _membership(
    config: RetrainingMembership, material: Material
) -> RetrainingMembership:
    """With as many draws of a seed that isn't told as the time allows."""
    affordable = material.affordable()
    if affordable is None:
        return config
    draws = int(np.clip(affordable, 2, config.draws))
    return dataclasses.replace(config, draws=draws)


def _exact(facts: Facts) -> str:
    """Attacks that run the training again need it to give the same weights again."""
    if not facts.deterministic:
        return "equal arguments give other weights; see what the pre-flight found"
    return ""


# Share of an inversion's time for trainings that measure noise, and how many
# neighbours of a target are trained for it, at least and at most.
_OF_NOISE, _NEIGHBOURS = 0.1, (20, 600)
_NOISE = (
    "only noise in training bounds it (DP-SGD, `informed calibrate`); a secret seed is"
    " no guarantee: seeds of 32 bits can be searched"
)
# What an attack is told by way of the shadow models that it is trained on.
_SHADOWS = ("fixed", "algorithm", "public")
# In the order in which an audit plays them: what is exact and cheap comes first.
for _row in (
    Row(
        name="mean_image",
        about="the best guess without the release: the mean public image",
        make=lambda config, material: MeanImage(),
        sees="nothing",
        knows=("fixed",),
        uses=("public", "labels", "known"),
        gives=("images",),
        share=0.0,  # every audit has it among its baselines
    ),
    Row(
        name="closed_form",
        about="linear models: scaler's means, span, equations of the optimum",
        make=EstimatorAttack.made,
        sees="estimator",
        knows=("fixed",),
        gives=("images", "labels", "certified", "trainings"),
        applies=estimator_attack.applies,
        remedy="only noise in training bounds it (`informed calibrate`); rounded"
        " coefficients mostly lead to the record as well, and so does a scaler's mean",
        share=0.15,
    ),
    Row(
        name="span",
        about="what the first layer holds off the span of the known records",
        config=span.SpanConfig,
        make=span.SpanAttack.made,
        sees="weights",
        knows=("fixed",),
        uses=("algorithm", "initialisation", "training_key", "labels"),
        gives=("images", "certified", "trainings"),
        applies=span.applies,
        remedy="only noise in training bounds it (`informed calibrate`); rounded"
        " weights mostly give it away as well",
        # Two dozen seconds a record of letters, where A is PyTorch's.
        share=0.2,
        revision=2,
    ),
    Row(
        name="inversion",
        about="inversion of the training itself; exact, with a certificate",
        config=InversionConfig,
        make=_inversion,
        sees="weights",
        knows=("fixed", "algorithm"),
        uses=(
            "initialisation",
            "training_key",
            "public",
            "labels",
            "seeds",
            "known",
        ),
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
        applies=_exact,
        remedy=_NOISE,
        share=0.45,  # the most: it alone is exact for weights of any training
        revision=INVERSION_REVISION,
    ),
    Row(
        name="kernel",
        about="kernel regression on shadow models, a label at a time",
        config=KernelReconnConfig,
        make=_reconn,
        sees="view",
        knows=_SHADOWS,
        uses=("initialisation", "known"),
        gives=("images", "labels"),
        remedy=_NOISE,
        shadows=True,
        share=0.15,
    ),
    Row(
        name="black_box",
        about="kernel regression on answers",
        config=KernelReconnConfig,
        make=_reconn,
        sees="answers",
        knows=_SHADOWS,
        uses=("initialisation", "known"),
        gives=("images", "labels"),
        remedy="only noise in training bounds it; labels without scores tell less",
        shadows=True,
        share=0.08,
    ),
    Row(
        name="reconn",
        about="reconstructor network trained on shadow models (Balle et al. 2022)",
        config=ReconnConfig,
        make=_reconn,
        sees="view",
        knows=_SHADOWS,
        uses=("initialisation", "known"),
        gives=("images",),
        remedy=_NOISE,
        shadows=True,
        asked=True,
        share=0.15,
    ),
    Row(
        name="gallery",
        about="train again with the likeliest records of a gallery, and compare",
        make=GalleryAttack.made,
        sees="weights",
        knows=("fixed", "algorithm"),
        uses=("initialisation", "training_key"),
        gives=("images", "labels", "certified", "trainings"),
        applies=_exact,
        names=True,
        remedy=_NOISE,
        share=0.1,
    ),
    Row(
        name="glm",
        about="closed form for affine victims at their optimum (Theorem 1)",
        make=lambda config, material: GlmAttack(),
        sees="weights",
        knows=("fixed", "algorithm"),
        gives=("images", "labels", "residuals"),
        share=0.0,  # for the toolkit's own affine victims, which an audit never meets
    ),
    Row(
        name="stationary",
        about="the gradient that is left where training converged; no seed needed",
        config=StationaryConfig,
        make=lambda config, material: StationaryAttack(
            config=config, progress=material.progress
        ),
        sees="weights",
        knows=("fixed", "algorithm"),
        uses=("initialisation", "training_key", "public", "labels"),
        gives=("images", "labels", "residuals", "expected_mse"),
        share=0.0,  # it needs gradients of the loss, which a training function hides
        revision=STATIONARY_REVISION,
    ),
    Row(
        name="membership",
        about="which of two candidates: train with both, and compare",
        protocol="membership",
        config=RetrainingMembership,
        make=_membership,
        sees="weights",
        knows=("fixed", "algorithm"),
        uses=("initialisation", "training_key"),
        gives=("choice",),
        share=0.0,  # audits play it beside reconstruction, in a part of its own
    ),
    Row(
        name="prior_aware",
        about="which of m candidates, from every noisy gradient of private training",
        protocol="transcript",
        make=lambda config, material: prior_aware.log_posterior,
        sees="every noisy gradient",
        knows=("fixed", "algorithm", "initialisation", "candidates"),
        gives=("log_posterior",),
        share=0.0,  # nobody but the developer has every noisy gradient
    ),
):
    register(_row)
