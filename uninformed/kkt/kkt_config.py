"""Settings of the KKT attack: the terms of its loss, and its effort.

Users and the files in configs/ set them. `loss`, `descent`, `scoring` and `experiment`
read them.
"""

import dataclasses
from typing import Any

from shadow import checks


@dataclasses.dataclass(frozen=True, kw_only=True)
class KktConfig:
    """The terms of the loss, and how it is minimised.

    The defaults are ours; `published` and `public_code` are the paper's and its code's.

    Attributes:
      candidates: m, number of candidates. Haim et al. advise twice the number of
        training points. With 500 points, m = 500 recovers more than m = 1,000.
      coefficients: "multipliers", lambda_i >= 0 times the label's direction, or
        "signed", any number for each output (Buzaglo et al. 2023).
      steps: number of gradient steps of a run.
      optimiser: "adam", whose rates fall to 0 by a cosine, or "sgd" with momentum 0.9
        and constant rates.
      span: whether to search only in the span of the first layer's weights, as far as
        these exceed their initial noise.
      spectrum: coordinates in that span are multiples of the first layer's singular
        values to this power, at the start and in each step; 0: all equal. Images have
        most of their variance in few directions, which the layer reflects.
      whitening: the residual in each direction of the first layer is divided by its
        singular value to this power; 0: all equal. Residuals are larger along larger
        singular values.
      start: sigma_x, standard deviation of the candidates' pixels at the start.
      rate: learning rate of the candidates, in pixels.
      multiplier_rate: learning rate of the multipliers, in `units`; None: `rate`.
      units: unit of multipliers: "fitted", twice the mean of those that fit best at the
        start; "one"; "per_candidate", 1 / m. Initial multipliers are uniform in [0, 1];
        signed ones standard normal.
      alpha: slope of the sigmoid in ReLU's derivative at the first step.
      alpha_end: slope from five sixths of the steps on, with a geometric path from
        `alpha`; None: `alpha` throughout.
      alpha_units: unit of alpha: "typical", 1 / root mean square of a layer's sums, or
        "absolute", 1.
      relative: whether residuals are divided by |theta|^2, weighted as `layers` says,
        and the penalty on multipliers by m.
      layers: weights of the layers' squared residuals: "alike", or "trained", smaller
        the more of a layer is initial weights. Gradient flow adds the same to the
        squared norm of every layer (Du et al. 2018), so the excess over the smallest
        layer's is initial, and no points explain it.
      margin_weight: weight of squared distances from the margin, in units of the
        margin.
      least_multiplier: lambda_min, below which multipliers are penalised, in `units`.
      dual: the penalty on multipliers below lambda_min: "squared" or "linear".
      dual_weight: weight of that penalty.
      low: least value of a pixel, before a mean is subtracted.
      high: largest value of a pixel, before a mean is subtracted.
      prior: the penalty on pixels outside [low, high]: "squared" or "linear".
      prior_weight: weight of that penalty, summed over candidates and pixels.
      prior_mean: whether that penalty is divided by the number of pixels.
      restarts: about the number of times, evenly over the first 60 % of the steps, that
        candidates with almost no multiplier are redrawn.
    """

    candidates: int = 100
    coefficients: str = "multipliers"
    steps: int = 20_000
    optimiser: str = "adam"
    span: bool = True
    spectrum: float = 0.0
    whitening: float = 0.0
    start: float = 0.5
    rate: float = 5e-3
    multiplier_rate: float | None = 1e-2
    units: str = "fitted"
    alpha: float = 100.0
    alpha_end: float | None = 3000.0
    alpha_units: str = "typical"
    relative: bool = True
    layers: str = "alike"
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

    def __post_init__(self) -> None:
        for field, allowed in {
            "coefficients": ("multipliers", "signed"),
            "optimiser": ("adam", "sgd"),
            "units": ("fitted", "one", "per_candidate"),
            "alpha_units": ("typical", "absolute"),
            "layers": ("alike", "trained"),
            "dual": ("squared", "linear"),
            "prior": ("squared", "linear"),
        }.items():
            checks.choice(field, getattr(self, field), allowed)
        checks.at_least("candidates", self.candidates, 2)
        checks.at_least("steps", self.steps, 1)
        checks.at_least("restarts", self.restarts, 0)
        for field in ("start", "rate", "alpha", "alpha_end", "multiplier_rate"):
            if (value := getattr(self, field)) is not None:
                checks.positive(field, value)
        for field in ("margin_weight", "dual_weight", "prior_weight"):
            checks.at_least(field, getattr(self, field), 0)
        for field in ("spectrum", "whitening"):
            power = getattr(self, field)
            checks.at_least(field, power, 0)
            if power and not self.span:
                raise checks.FieldError(
                    field,
                    f"{{}} is {power!r}, but candidates are free in all inputs; set"
                    " span to True, or {} to 0.",
                )
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
        """Return the settings of Haim et al. 2022, Sections 3.2, 5.2 and Appendix B.

        Pixels are in [0, 1]. The dual term has lambda_min inside the hinge, as the
        paper intends; as printed, the term has no gradient.
        """
        fields: dict[str, Any] = {
            "steps": 100_000,
            "optimiser": "sgd",
            "span": False,
            "units": "one",
            "multiplier_rate": None,
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
        """Return the public code's settings: multipliers over m, squared hinges."""
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
