"""The threat model as types: an attack's release, knowledge and reconstruction.

An attack gets what is published (`Release`) and what the adversary knows besides
(`Knowledge`), and returns a `Reconstruction`. `Factory`, runs and audits make the
first two. An attack never gets the target, at most its label or known parts. A
membership attack gets two candidates, and isn't told which is the target. A release is
made out of theta by a view (`shadow.views`). It doesn't hold what the view leaves out,
so no attack can use that by mistake.

Source: Balle et al. 2022, Definition 1.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int

from shadow import checks
from shadow.data import Examples
from shadow.known import Known
from shadow.training.algorithm import Algorithm
from shadow.training.seeds import SeedFamily
from shadow.views import EVERYTHING, View

Guesses = Float32[np.ndarray, "releases height width channels"]
Values = Float[np.ndarray, "releases values"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """What is published of some models: all that an attack sees of them.

    Attributes:
      values: (releases, values), the published numbers. The rows are separate games
        with different targets, which share D_- and A.
      view: the function of theta that gave the values; public.
      deviations: standard deviations of errors that publishing added to the values,
        such as rounding, of the same shape; None: no errors.
    Raises: FieldError: another shape, NaN or infinity.
    """

    values: Values
    view: View = EVERYTHING
    deviations: Values | None = None

    def __post_init__(self) -> None:
        for name in ("values", "deviations"):
            values = getattr(self, name)
            if values is None:
                continue
            if np.ndim(values) != 2:
                raise checks.FieldError(
                    name,
                    "Expected {} of a release of shape (releases, params), got"
                    f" {np.shape(values)}.",
                )
            finite = np.isfinite(values).all(axis=1)
            if not finite.all():
                raise checks.FieldError(
                    name,
                    f"Expected finite {{}}, found NaN or infinity in {np.sum(~finite)}"
                    f" of {len(values)} releases, such as number {finite.argmin()}.",
                )
        if self.deviations is not None and self.deviations.shape != self.values.shape:
            raise checks.FieldError(
                "deviations",
                f"Expected {{}} of shape {self.values.shape}, one per value, got"
                f" {self.deviations.shape}.",
            )

    def __len__(self) -> int:
        return len(self.values)

    @property
    def weights(self) -> Values:
        """Theta of each model, (releases, params), if all of it is published.

        Raises: FieldError: only a part is published.
        """
        if not self.view.whole:
            raise checks.FieldError(
                "view",
                f"Expected a release of all weights, got one of {self.view.what}; this"
                " attack is white-box.",
            )
        return self.values


def publish(
    weights: Float[np.ndarray, "models params"], view: View = EVERYTHING
) -> Release:
    """Return the release of models under a view, by default all of their theta.

    Raises: FieldError: NaN or infinity in what is published.
    """
    weights = np.asarray(weights)
    if weights.ndim != 2:
        what = f"Expected {{}} of shape (models, params), got {weights.shape}."
        raise checks.FieldError("weights", what)
    return Release(values=view(weights), view=view, deviations=view.deviations(weights))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Knowledge:
    """What the adversary knows besides the release. None: not known.

    Attributes:
      fixed: D_-, all training points but the target.
      algorithm: the training algorithm A.
      initialisation: (params,), theta_0; or (releases, params), one per release.
      training_key: the key of A's randomness: of the order of mini-batches, or of
        everything in a user's function.
      public: side knowledge aux, labelled images disjoint from D_- and the targets.
      labels: (releases,), the targets' labels.
      seeds: the seeds that theta_0 was drawn from one of; they can be searched.
      known: pixels or columns of the targets (attribute inference, Section II-C).
    """

    fixed: Examples | None = None
    algorithm: Algorithm | None = None
    initialisation: Float[np.ndarray, "*releases params"] | None = None
    training_key: Any = None
    public: Examples | None = None
    labels: Int[np.ndarray, " releases"] | None = None
    seeds: SeedFamily | None = None
    known: Known | None = None

    def __post_init__(self) -> None:
        for field in ("initialisation", "labels"):
            if (value := getattr(self, field)) is not None:
                object.__setattr__(self, field, np.asarray(value))

    def require(self, release: Release, *needed: str) -> None:
        """Raise unless an attack's needed fields are known and fit the release.

        Raises: FieldError: a needed field is None; weights of another victim; the
          number of labels, or of known parts of targets, isn't that of releases.
        """
        require_told(self, *needed)
        algorithm, fixed = self.algorithm, self.fixed
        if algorithm is not None and fixed is not None and release.view.whole:
            expected = algorithm.layout(fixed)[-1].stop
            params = release.values.shape[1]
            if params != expected:
                raise checks.FieldError(
                    "weights",
                    f"Expected {{}} of {expected} parameters, those of this victim, got"
                    f" {params}.",
                )
        if self.labels is not None and fixed is not None:
            known = (self.labels >= 0) & (self.labels < fixed.num_classes)
            checks.require("labels", self.labels, known, f"below {fixed.num_classes}")
        per_release = {"labels": self.labels}
        if self.initialisation is not None and self.initialisation.ndim == 2:
            per_release["initialisation"] = self.initialisation
        if self.known is not None:
            per_release["known"] = self.known.values
        for field, given in per_release.items():
            if given is not None and len(given) != len(release):
                raise checks.FieldError(
                    field,
                    f"Expected {{}} with one per release, {len(release)}, got"
                    f" {len(given)}.",
                )


def require_told(facts: Any, *needed: str) -> None:
    """Raise FieldError if one of these fields of the knowledge is None."""
    missing = [name for name in needed if getattr(facts, name) is None]
    if missing:
        raise checks.FieldError(
            missing[0],
            f"This attack needs to be told {', '.join(missing)}; this adversary isn't.",
        )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Reconstruction:
    """An attack's guess of the targets, one per release.

    Attributes:
      images: (releases, height, width, channels).
      labels: (releases,), where the attack recovers them.
      residuals: (releases,), squared residual of theta that the guess leaves, where the
        attack computes it.
      certified: (releases,) bool, whether the attack itself says the image is exact;
        where `exact_if_levels` is set too, on that condition.
      exact_if_levels: (releases,) bool, whether the guess is exact if the target's
        pixels are among the levels of the images that the adversary knows.
      expected_mse: (releases,), the error that the attack expects. If the guess
        explains theta worse than noise would, the excess counts as more noise.
      label_margins: (releases,), how much worse the second label explains theta than
        the first, as a quotient >= 1; where labels are recovered.
      trainings: (releases,), how often A was run; runs shared by several releases count
        for the first. Derivatives that a run computes along the way are not counted.
    """

    images: Guesses
    labels: Int[np.ndarray, " releases"] | None = None
    residuals: Float[np.ndarray, " releases"] | None = None
    certified: Bool[np.ndarray, " releases"] | None = None
    exact_if_levels: Bool[np.ndarray, " releases"] | None = None
    expected_mse: Float[np.ndarray, " releases"] | None = None
    label_margins: Float[np.ndarray, " releases"] | None = None
    trainings: Int[np.ndarray, " releases"] | None = None

    @classmethod
    def joined(cls, parts: "Sequence[Reconstruction]") -> "Reconstruction":
        """Concatenate reconstructions, which all have the same fields set."""
        if not parts:
            raise ValueError("parts: got no reconstruction; at least one is needed.")
        fields = {n: [vars(part)[n] for part in parts] for n in vars(parts[0])}
        known = {n: v for n, v in fields.items() if v[0] is not None}
        return cls(**{name: np.concatenate(values) for name, values in known.items()})


@runtime_checkable
class Attack(Protocol):
    """A reconstruction attack R(theta, D_-, A; aux) -> candidate."""

    def __call__(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Reconstruction:
        """Reconstruct the target of every release."""


@runtime_checkable
class MembershipAttack(Protocol):
    """An informed membership attack M(theta, D_-, A, z_0, z_1) -> 0 or 1."""

    def __call__(
        self,
        release: Release,
        knowledge: Knowledge,
        candidates: tuple[Examples, Examples],
        *,
        key: Array,
    ) -> Int[np.ndarray, " releases"]:
        """Guess, for every release, whether candidate 0 or 1 was trained on."""
