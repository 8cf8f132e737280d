"""What the KKT attack minimises, and how hard it tries."""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from shadow import checks

COEFFICIENTS = ("multipliers", "signed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class KktConfig:
    """What is minimised, and how.

    Attributes:
      candidates: m; at least twice the number of training points is advised.
      coefficients: "multipliers" or "signed".
      steps, optimiser ("adam" or "sgd" with momentum 0.9), schedule ("cosine" to 0 or
        "constant").
      span: look for candidates in the span of the first layer's weights, as far as
        these stand out from their initial noise.
      start: standard deviation of the candidates' pixels at the start, sigma_x.
      rate, multiplier_rate: of the candidates; of the multipliers, in `units`.
      units: "fitted", multiples of the mean of the multipliers that fit best at the
        start; "one", plain; "per_candidate", plain and divided by m.
      multipliers: at the start, "fitted" (by non-negative least squares, with a floor)
        or "uniform" in [0, 1]; signed ones are standard normal if "uniform".
      alpha, alpha_end: slope of the sigmoid in ReLU's derivative, first and last; in
        between geometric. None: the same.
      alpha_units: "typical", 1 / root mean square of what a layer sums up, or
        "absolute".
      relative: residuals divided by |theta|^2.
      balanced: every layer weighs the same, as it should where theta is a KKT point.
      margin_weight: of squared distances from the margin, in its units.
      least_multiplier: lambda_min; dual ("squared" or "linear"), dual_weight: of what
        is missing to it.
      low, high: range of pixels, before a mean is subtracted;
      prior ("squared" or "linear"), prior_weight: of what lies outside, summed; divided
        by the number of pixels if prior_mean.
      restarts: so many times, evenly over the first 60 % of the steps, candidates with
        next to no multiplier begin anew.
      gram: whether to multiply out; None: where it is less work.
    """

    candidates: int = 100
    coefficients: str = "multipliers"
    steps: int = 20_000
    optimiser: str = "adam"
    schedule: str = "cosine"
    span: bool = True
    start: float = 0.5
    rate: float = 5e-3
    multiplier_rate: float = 1e-2
    units: str = "fitted"
    multipliers: str = "uniform"
    alpha: float = 100.0
    alpha_end: float | None = 3000.0
    alpha_units: str = "typical"
    relative: bool = True
    balanced: bool = False
    margin_weight: float = 1.0
    least_multiplier: float = 0.0
    dual: str = "squared"
    dual_weight: float = 5.0
    low: float = -1.0
    high: float = 1.0
    prior: str = "squared"
    prior_weight: float = 1.0
    prior_mean: bool = True
    restarts: int = 10
    gram: bool | None = None

    def __post_init__(self) -> None:
        for field, allowed in {
            "coefficients": COEFFICIENTS,
            "optimiser": ("adam", "sgd"),
            "schedule": ("cosine", "constant"),
            "units": ("fitted", "one", "per_candidate"),
            "multipliers": ("fitted", "uniform"),
            "alpha_units": ("typical", "absolute"),
            "dual": ("squared", "linear"),
            "prior": ("squared", "linear"),
        }.items():
            checks.choice(field, getattr(self, field), allowed)
        checks.at_least("candidates", self.candidates, 2)
        checks.at_least("steps", self.steps, 1)
        checks.at_least("restarts", self.restarts, 0)
        for field in ("start", "rate", "multiplier_rate", "alpha"):
            checks.positive(field, getattr(self, field))
        for field in ("margin_weight", "dual_weight", "prior_weight"):
            checks.at_least(field, getattr(self, field), 0)
        if not self.low < self.high:
            raise checks.FieldError(
                "low", f"Expected {{}} < high, got {self.low!r} and {self.high!r}."
            )
        if self.coefficients == "signed" and self.margin_weight:
            raise checks.FieldError(
                "margin_weight",
                f"{{}} is {self.margin_weight!r}, but points with signed coefficients"
                " have no margin in common. Set it to 0.",
            )

    @classmethod
    def published(cls, **changes: Any) -> "KktConfig":
        """Sections 3.2 and 5.2 and Appendix B of Haim et al. 2022; pixels in [0, 1].

        The dual term with lambda_min inside the hinge, as is meant: what is printed is
        flat.
        """
        fields: dict[str, Any] = {
            "steps": 100_000,
            "optimiser": "sgd",
            "schedule": "constant",
            "span": False,
            "units": "one",
            "alpha": 50.0,
            "alpha_end": None,
            "alpha_units": "absolute",
            "relative": False,
            "margin_weight": 0.0,
            "restarts": 0,
            "dual": "linear",
            "low": 0.0,
            "prior": "linear",
        }
        return cls(**fields | changes)

    @classmethod
    def public_code(cls, **changes: Any) -> "KktConfig":
        """What the public code does: multipliers over m, squared hinges, [-1, 1]."""
        fields: dict[str, Any] = {
            "steps": 50_000,
            "units": "per_candidate",
            "multiplier_rate": 1e-4,
            "dual": "squared",
            "low": -1.0,
            "prior": "squared",
            "prior_mean": False,
        }
        return cls.published(**fields | changes)


class Knobs(NamedTuple):
    """What a random search turns: one number each, or one per run."""

    start: Array
    rate: Array
    multiplier_rate: Array
    least_multiplier: Array
    alpha: Array
    alpha_end: Array

    @classmethod
    def of(cls, config: KktConfig) -> "Knobs":
        """Those of a configuration."""
        end = config.alpha if config.alpha_end is None else config.alpha_end
        fields = {name: getattr(config, name) for name in cls._fields} | {
            "alpha_end": end
        }
        return cls(**{name: jnp.asarray(value) for name, value in fields.items()})
