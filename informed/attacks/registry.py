"""The registry of attacks by name: what each sees, knows and gives, when it applies.

A new attack is one file with a callable (`threat.Attack`), a frozen dataclass of
settings, and one row here, or a call of `register` from the user's own module.
`informed attacks`, reports and the contract test pick it up by its name. So do runs
(`informed.add_attack`), and audits if the row has a share of their time. Membership
attacks (`informed.games`) and `prior_aware` have no row.
"""

from collections.abc import Mapping
from typing import Any

from informed.attacks.attack_row import Row
from shadow import checks

_ROWS: dict[str, Row] = {}


def register(row: Row) -> None:
    """Add an attack to the registry.

    Raises: ValueError: another attack has this name.
    """
    there = _ROWS.get(row.name)
    if there is not None and _identity(there) != _identity(row):
        raise ValueError(f"There is an attack called {row.name!r} already.")
    _ROWS[row.name] = row


def _identity(row: Row) -> tuple[str, str]:
    """Return what stays equal if a module is loaded twice, under different names."""
    if isinstance(row.config, str):
        return row.config.partition(":")[2], row.about
    return row.config.__qualname__, row.about


def rows() -> Mapping[str, Row]:
    """Return all attacks by their names."""
    return dict(_ROWS)


def find(name: str) -> Row:
    """Return the attack of a name.

    Raises: FieldError: no attack has this name; suggests the nearest.
    """
    if name not in _ROWS:
        raise checks.FieldError(
            "type",
            f"Expected {{}} to be one of {', '.join(sorted(_ROWS))}; got {name!r}."
            f"{checks.nearest(name, _ROWS)} One of your own has to be registered: by"
            " the configuration, or with --registers FILE.",
        )
    return _ROWS[name]


_NOISE = (  # the remedy that several rows name
    "only noise in training bounds it (DP-SGD, `informed calibrate`); a secret seed is"
    " no guarantee: seeds of 32 bits can be searched"
)
_NOISE_OF_ANSWERS = "only noise in training bounds it; labels without scores tell less"
# RecoNN and kernel regression, which need shadow models.
LEARNED = "informed.attacks.shadow_trained:make"
_TRAINED: dict[str, Any] = {
    "make": LEARNED,
    "knows": ("fixed", "algorithm", "public"),
    "uses": ("initialisation", "known"),
    "shadows": True,
    "sees": "view",
    "gives": ("images", "labels"),
    "remedy": _NOISE,
}
# In the order in which an audit plays them: exact and cheap attacks come first.
for _row in (
    Row(
        name="mean_image",
        about="the best guess without the release: the mean known image",
        make="informed.attacks.mean_image:make",
        sees="nothing",
        knows=("fixed",),
        uses=("public", "labels", "known"),
        gives=("images",),
        share=0.0,  # every audit has it among its baselines
    ),
    Row(
        name="closed_form",
        about="linear models: scaler's means, span, equations of the optimum",
        make="informed.attacks.closed_form.estimator_attack:make",
        sees="estimator",
        knows=("fixed",),
        gives=("images", "labels", "certified", "trainings"),
        applies="informed.attacks.closed_form.estimator_attack:applies",
        remedy="only noise in training bounds it (`informed calibrate`); rounded"
        " coefficients mostly lead to the record as well, and so does a scaler's mean",
        share=0.15,
        revision=4,
    ),
    Row(
        name="span",
        about="what the first layer holds off the span of the known records",
        config="informed.attacks.span:SpanConfig",
        make="informed.attacks.span.span_attack:make",
        sees="weights",
        knows=("fixed",),
        uses=("algorithm", "initialisation", "training_key", "labels"),
        gives=("images", "certified", "exact_if_levels", "trainings"),
        applies="informed.attacks.span:applies",
        remedy="only noise in training bounds it (`informed calibrate`); rounded"
        " weights mostly give it away as well",
        # Takes about 24 s per record of 784 pixels with a PyTorch training function.
        share=0.2,
        revision=5,
    ),
    Row(
        name="inversion",
        about="inversion of the training itself; exact, with a certificate",
        config="informed.attacks.inversion:InversionConfig",
        make="informed.attacks.inversion.training_inversion:make",
        sees="weights",
        knows=("fixed", "algorithm"),
        uses=("initialisation", "training_key", "public", "labels", "seeds", "known"),
        gives=(
            *("images", "labels", "residuals", "certified", "exact_if_levels"),
            *("expected_mse", "label_margins", "trainings"),
        ),
        applies=lambda facts: facts.why_not_again,
        remedy=_NOISE,
        share=0.45,  # the most: it alone is exact for weights of any training
        revision=21,
    ),
    Row(
        name="kernel",
        about="kernel regression on shadow models, a label at a time",
        config="informed.experiment.reconn_settings:KernelReconnConfig",
        **_TRAINED,
        share=0.15,
    ),
    Row(
        name="refined",
        about="the kernel's guesses, corrected by a network",
        config="informed.experiment.reconn_settings:RefinedReconnConfig",
        asked=True,
        **_TRAINED,
        share=0.15,
    ),
    Row(
        name="black_box",
        about="kernel regression on answers",
        config="informed.experiment.reconn_settings:KernelReconnConfig",
        **_TRAINED | {"sees": "answers", "remedy": _NOISE_OF_ANSWERS},
        share=0.08,
    ),
    Row(
        name="reconn",
        about="reconstructor network trained on shadow models (Balle et al. 2022)",
        config="informed.experiment.reconn_settings:ReconnConfig",
        **_TRAINED | {"gives": ("images",)},
        share=0.0,  # an audit refines the kernel's guesses instead
    ),
    Row(
        name="glm",
        about="closed form for affine victims at their optimum (Theorem 1)",
        make="informed.attacks.closed_form.affine:make",
        sees="weights",
        knows=("fixed", "algorithm"),
        gives=("images", "labels", "residuals"),
        share=0.0,  # for the toolkit's own affine victims, which an audit never meets
    ),
    Row(
        name="stationary",
        about="the gradient that is left where training converged; no seed needed",
        config="informed.attacks.stationary:StationaryConfig",
        make="informed.attacks.stationary.stationary_attack:make",
        sees="weights",
        knows=("fixed", "algorithm"),
        uses=("initialisation", "training_key", "public", "labels"),
        gives=("images", "labels", "residuals", "expected_mse"),
        share=0.0,  # it needs gradients of the loss, which a training function hides
        revision=5,
    ),
):
    register(_row)
