"""Inverting the training itself: exact reconstruction without a shadow model.

THREAT: knows D_-, the training algorithm A and its initialisation (and, for
mini-batches, their order), and has public images. White-box release. The label may be
unknown.

A is deterministic and differentiable, so the target is the solution of

    min_z |A(D_- + z) - theta|^2

found by damped Gauss-Newton (`gauss_newton`) through the whole training run
(`retraining`). What makes it work:

- z in principal components of public images, scaled by their standard deviations: a
  Gaussian prior, and a well-conditioned problem (`coordinates`). Few components first,
  all pixels last; the map bends too much for a start in all of them.
- The start is the mean image of a class. The derivatives there are shared by all
  releases: they rank the candidate labels, and are the first step's Jacobian.

The certificate: at a true target the residual is the rounding noise of A, which the
adversary measures by training again with z changed in its last digits. So they know
*without the target* whether the reconstruction is exact.

Where the released numbers are rounded (`Release.deviations`) or A draws randomness that
isn't told, residuals are weighted by the covariance of that noise, estimated by
training repeatedly, and the Gaussian prior enters: the maximum a posteriori. The spread
of the posterior is reported as `expected_mse`.

Source: ours. The key draws the randomness of A that isn't told, and further starts.
"""

import dataclasses
from collections.abc import Callable, Iterator

import jax
import numpy as np
from jaxtyping import Array, Int
from tqdm import tqdm

from informed.attacks import coordinates, gauss_newton
from informed.attacks import noise as noises
from informed.attacks.gauss_newton import Linearised, Point
from informed.attacks.retraining import Retraining
from informed.threat import Attack, Knowledge, Reconstruction, Release
from shadow import checks

_LAST_DIGITS = 1e-6
_ROUNDING_RUNS = len(gauss_newton.DAMPINGS) - 1  # together with z itself: one batch
_FLOOR_FACTOR = 2.0  # this near to the rounding noise no step helps any more
_QUICK, _PATIENT = (1.3, 1), (1.1, 2)  # (give_up, times `steps`)
_LAST_STAGE = 2  # times `steps`
_RANKING_DAMPING = 1e-5  # of the linearised residual that ranks labels
_LARGE_JACOBIAN = 1 << 30  # bytes; beyond, the last stages are matrix-free
_COORDINATES = {
    "components": coordinates.principal_components,
    "pixels": coordinates.pixels,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class InversionConfig:
    """How hard to try.

    Attributes:
      coordinates: "components" or "pixels".
      stages: numbers of components of the stages before the last; the last stage has
        all of them. Those that are not fewer than the pixels are left out.
      steps: Gauss-Newton steps a stage, at most.
      label_components: of the linearised ranking of candidate labels.
      labels_tried: labels that are tried to the end, best first, at most;
      label_factor: and only those whose residual in the ranking is at most this many
        times the best one's.
      starts: of each label, until theta is explained: its mean image in a hurry, the
        same with patience, the mean of all, then public images of that label at random.
      rank: of the data in derivatives in span (`retraining`).
      tangents: derivatives carried by one training run; a matter of speed and memory.
      krylov: dimensions of the matrix-free stages, which replace those whose Jacobian
        would pass 1 GiB.
      draws: of randomness of A that isn't told.
      noise_factor: certified if the squared residual is at most this many times that
        of the noise,
      exact_mse: and `expected_mse` at most this.
    """

    coordinates: str = "components"
    stages: tuple[int, ...] = (16, 60, 300)
    steps: int = 8
    label_components: int = 60
    labels_tried: int = 4
    label_factor: float = 2.0
    starts: int = 3
    rank: int = 100
    tangents: int = 32
    krylov: int = 50
    draws: int = 16
    noise_factor: float = 10.0
    exact_mse: float = 1e-6

    def __post_init__(self) -> None:
        checks.choice("inversion.coordinates", self.coordinates, _COORDINATES)
        for field in ("steps", "labels_tried", "starts", "tangents", "krylov", "rank"):
            checks.at_least(f"inversion.{field}", getattr(self, field), 1)
        checks.at_least("inversion.label_components", self.label_components, 1)
        checks.at_least("inversion.draws", self.draws, 2)
        checks.at_least("inversion.noise_factor", self.noise_factor, 1)
        checks.at_least("inversion.label_factor", self.label_factor, 1)
        for components in self.stages:
            checks.at_least("inversion.stages", components, 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingInversion:
    """The attack; see the module's docstring.

    Attributes:
      config: how hard to try.
      guess: another attack, whose reconstructions are the first starts (hybrid).
      progress: show a bar.
    """

    config: InversionConfig = dataclasses.field(default_factory=InversionConfig)
    guess: Attack | None = None
    progress: bool = False

    def __call__(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Reconstruction:
        """Reconstruct the target of every release, one after the other.

        Args:
          release: trained models.
          knowledge: needs fixed, victim and training. An initialisation or order of
            mini-batches that isn't told is drawn `draws` times. Uses public and labels
            where they are told.
        Returns: images, not cut to [0, 1]; labels and their margins; squared residuals;
          certified; expected_mse.
        Raises: ValueError: a fact that it needs is None.
        """
        guesses = None
        if self.guess is not None:
            guesses = self.guess(release, knowledge, key=key).images
        solver = _Solver(self.config, knowledge, key)
        found, margins = [], []
        with tqdm(
            total=len(release.weights),
            desc="inversion",
            unit=" targets",
            disable=None if self.progress else True,
        ) as bar:
            for i in range(len(release.weights)):
                target = _Target.of(release, i)
                if knowledge.labels is None:
                    labels, margin = solver.rank_labels(target)
                else:
                    labels, margin = knowledge.labels[i : i + 1], np.inf
                starts = solver.starts(
                    labels[:, None], None if guesses is None else guesses[i][None]
                )
                found.append(_first_explained(solver.solve(target, s) for s in starts))
                margins.append(margin)
                bar.update()
        return Reconstruction(
            images=np.stack([each.images[0] for each in found]),
            labels=np.array([each.labels[0] for each in found]),
            residuals=np.array([each.residual for each in found]),
            certified=np.array([each.certified for each in found]),
            expected_mse=np.array([each.expected_mse for each in found]),
            label_margins=None if knowledge.labels is not None else np.array(margins),
        )

    def several(
        self,
        release: Release,
        knowledge: Knowledge,
        labels: Int[np.ndarray, "releases unknown"],
        *,
        key: Array,
    ) -> list[Reconstruction]:
        """Reconstruct several unknown training points of every release, together.

        Args:
          release: models trained on D_- and the unknown points. With mini-batches, the
            unknown points are the last of the training set, in the order of `labels`.
          knowledge, key: as for one point.
          labels: of the unknown points.
        Returns: one a release; its rows are the unknown points. Points of one label may
          come in any order.
        """
        solver = _Solver(self.config, knowledge, key)
        results = []
        for i, row in enumerate(labels):
            target = _Target.of(release, i)
            starts = solver.starts(row[None], None)
            best = _first_explained(solver.solve(target, s) for s in starts)
            results.append(
                Reconstruction(
                    images=best.images,
                    labels=best.labels,
                    residuals=np.full(len(row), best.residual),
                    certified=np.full(len(row), best.certified),
                    expected_mse=np.full(len(row), best.expected_mse),
                )
            )
        return results


@dataclasses.dataclass(frozen=True)
class _Target:
    """One release: theta, and the deviations of its published numbers."""

    theta: np.ndarray
    deviations: np.ndarray | None

    @classmethod
    def of(cls, release: Release, i: int) -> "_Target":
        deviations = None if release.deviations is None else release.deviations[i]
        return cls(release.weights[i].astype(np.float64), deviations)


@dataclasses.dataclass(frozen=True)
class _Start:
    """Where to begin: labels (unknown,), images (unknown, ...), and how patiently."""

    labels: np.ndarray
    images: np.ndarray
    patient: bool


@dataclasses.dataclass(frozen=True)
class _Candidate:
    images: np.ndarray
    labels: np.ndarray
    residual: float
    explained: bool
    certified: bool
    expected_mse: float


def _first_explained(candidates: Iterator[_Candidate]) -> _Candidate:
    """The first candidate that explains theta, or else the one of least residual."""
    best: _Candidate | None = None
    for candidate in candidates:
        if candidate.explained:
            return candidate
        if best is None or candidate.residual < best.residual:
            best = candidate
    assert best is not None
    return best


class _Solver:
    """Everything that the releases of one call share."""

    def __init__(
        self, config: InversionConfig, knowledge: Knowledge, key: Array
    ) -> None:
        draw_key, self._key = jax.random.split(key)
        self.config = config
        self.runs = Retraining(
            knowledge,
            tangents=config.tangents,
            rank=config.rank,
            width=len(gauss_newton.DAMPINGS),
            draws=config.draws,
            key=draw_key,
        )
        assert knowledge.fixed is not None
        self._public = (knowledge.fixed.images, knowledge.fixed.labels)
        if knowledge.public is not None:
            own, given = self._public, knowledge.public
            self._public = (
                np.concatenate([own[0], given.images]),
                np.concatenate([own[1], given.labels]),
            )
        self.coordinates = _COORDINATES[config.coordinates](self._public[0])
        self._at_means: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    # Starts

    def mean_image(self, label: int) -> np.ndarray:
        """Mean of the public images of a class, or of all where it has none."""
        images, labels = self._public
        members = images[labels == label]
        return (members if len(members) else images).mean(axis=0)

    def starts(self, labels: np.ndarray, guess: np.ndarray | None) -> Iterator[_Start]:
        """The guess, then start after start, all candidates.

        Args:
          labels: (candidates, unknown).
          guess: (unknown, height, width, channels), or None.
        """
        if guess is not None:
            for row in labels:
                yield _Start(row, guess, patient=False)
        for number in range(self.config.starts):
            for row in labels:
                images = np.stack([self._start(label, number) for label in row])
                if len(row) > 1:
                    images = self._apart(images, number)
                yield _Start(row, images, patient=number > 0)

    def _start(self, label: int, number: int) -> np.ndarray:
        images, labels = self._public
        if number <= 1:
            return self.mean_image(label)
        if number == 2:
            return images.mean(axis=0)
        members = np.flatnonzero(labels == label)
        members = members if len(members) else np.arange(len(images))
        return images[self._rng(number).choice(members)]

    def _apart(self, images: np.ndarray, number: int) -> np.ndarray:
        """Move points of one label apart, or they would stay together."""
        u = self.coordinates.of(images)
        few = u[:, : min(self.config.stages, default=u.shape[1])]
        few += 0.1 * self._rng(number).standard_normal(few.shape)
        return self.coordinates.images(u)

    def _rng(self, number: int) -> np.random.Generator:
        key = jax.random.fold_in(self._key, number)
        return np.random.default_rng(np.asarray(jax.random.key_data(key)))

    # Labels

    def rank_labels(self, target: _Target) -> tuple[np.ndarray, float]:
        """Labels worth trying, best first.

        By the residual of the map linearised at the mean image of each class.

        Returns: labels; residual of the second over that of the first.
        """
        noise = self._release_noise(target)
        costs = []
        for label in range(self.runs.victim.num_classes):
            value, jacobian = self._at_mean(label)
            residual = noise.whiten(value - target.theta)
            matrix = noise.whiten(jacobian.T)
            spectrum, rotation = np.linalg.eigh(matrix @ matrix.T)
            along = rotation.T @ (matrix @ residual)
            whole = residual @ residual
            damped = np.maximum(spectrum, 0) + _RANKING_DAMPING * whole
            costs.append(whole - np.sum(along**2 / damped))
        order = np.argsort(costs)
        quotients = np.array(costs)[order] / costs[order[0]]
        worth = order[quotients <= self.config.label_factor]
        margin = float(quotients[1]) if len(order) > 1 else np.inf
        return worth[: self.config.labels_tried], margin

    def _at_mean(self, label: int) -> tuple[np.ndarray, np.ndarray]:
        """Theta and its Jacobian in the first components at a class's mean image."""
        if label not in self._at_means:
            image = self.mean_image(label)[None]
            labels = np.array([label])
            value = self.runs.thetas(image[None], labels[None])[0]
            basis = self.coordinates.basis[: self.config.label_components]
            self._at_means[label] = value, self.runs.slopes(image, labels, basis)
        return self._at_means[label]

    # Noise

    def _release_noise(self, target: _Target) -> noises.Noise:
        """What is told of it, else the same for every weight."""
        if target.deviations is None:
            return noises.Noise(np.ones(len(target.theta)))
        return noises.Noise(
            np.maximum(target.deviations, target.deviations.max() / 1e3)
        )

    def _noise(
        self, target: _Target, images: np.ndarray, labels: np.ndarray
    ) -> noises.Noise:
        """Covariance of theta around A(D_- + images): see the module's docstring."""
        params = len(target.theta)
        floor = np.sqrt(self.rounding(images, labels) / params)
        if self.runs.random:
            return noises.estimate(self.runs.draws(images, labels), floor)
        deviations = np.full(params, max(floor, np.finfo(float).tiny))
        if target.deviations is not None:
            deviations = np.hypot(deviations, target.deviations)
        return noises.Noise(deviations)

    def rounding(self, images: np.ndarray, labels: np.ndarray) -> float:
        """Squared rounding noise of A: trained with the images' last digits changed."""
        rng = np.random.default_rng(0)
        near = np.tile(images, (_ROUNDING_RUNS + 1, *[1] * images.ndim))
        near[1:] *= 1 + _LAST_DIGITS * rng.standard_normal(near[1:].shape)
        values = self.runs.thetas(near, np.tile(labels, (len(near), 1)))
        return float(np.mean(np.sum((values[1:] - values[0]) ** 2, axis=1)))

    # The solution

    def solve(self, target: _Target, start: _Start) -> _Candidate:
        """Stage after stage."""
        labels, unknown, size = start.labels, len(start.labels), len(self.coordinates)
        noise = self._noise(target, start.images, labels)
        exact = target.deviations is None and not self.runs.random
        prior, enough = (
            (0.0, _FLOOR_FACTOR * len(target.theta)) if exact else (1.0, 0.0)
        )

        def images(u: np.ndarray) -> np.ndarray:
            return self.coordinates.images(u.reshape(*u.shape[:-1], unknown, size))

        def residuals(us: np.ndarray) -> np.ndarray:
            found = self.runs.thetas(images(us), np.tile(labels, (len(us), 1)))
            return noise.whiten(found - target.theta)

        first = self.coordinates.of(start.images).ravel()
        here = gauss_newton.evaluate(residuals, first[None], prior)[0]
        known = self._known(noise, start)
        give_up, times = _PATIENT if start.patient else _QUICK
        slopes: gauss_newton.Slopes | None = None
        for components in [m for m in self.config.stages if m < size] + [size]:
            linearise = self._linearise(noise, images, labels, residuals, components)
            here, slopes = gauss_newton.minimise(
                residuals,
                linearise,
                here,
                steps=self.config.steps * (times if components < size else _LAST_STAGE),
                enough=enough,
                give_up=give_up,
                prior=prior,
                slopes=known if slopes is None else None,
            )
        assert slopes is not None
        return self._candidate(target, labels, images(here.u), noise, here, slopes)

    def _known(self, noise: noises.Noise, start: _Start) -> Linearised | None:
        """The first stage's derivatives, where the ranking of labels left them."""
        components = min((*self.config.stages, len(self.coordinates)))
        label = int(start.labels[0])
        if (
            len(start.labels) > 1
            or label not in self._at_means
            or components > self.config.label_components
            or not np.array_equal(start.images[0], self.mean_image(label))
        ):
            return None
        jacobian = self._at_means[label][1][:, :components]
        return Linearised(
            noise.whiten(jacobian.T).T, np.eye(components, len(self.coordinates))
        )

    def _linearise(
        self,
        noise: noises.Noise,
        images: Callable[[np.ndarray], np.ndarray],
        labels: np.ndarray,
        residuals: Callable[[np.ndarray], np.ndarray],
        components: int,
    ) -> Callable[[np.ndarray], Linearised]:
        """Derivatives in the first components of every point, or in a Krylov space."""
        unknown, size = len(labels), len(self.coordinates)
        basis = self.coordinates.basis[:components]
        columns = unknown * components
        kept = np.concatenate(
            [i * size + np.arange(components) for i in range(unknown)]
        )

        def dense(u: np.ndarray) -> Linearised:
            slopes = self.runs.slopes(images(u), labels, basis)
            return Linearised(noise.whiten(slopes.T).T, np.eye(unknown * size)[kept])

        def krylov(u: np.ndarray) -> Linearised:
            return gauss_newton.krylov(
                push=lambda v: noise.whiten(
                    self.runs.pushes(images(u), labels, images(v) - images(0 * v))
                ),
                pull=lambda r: self._pull(images(u), labels, noise, r),
                slope=self._pull(images(u), labels, noise, residuals(u[None])[0]),
                dimensions=self.config.krylov,
            )

        large = columns * self.runs.victim.num_params * 8 > _LARGE_JACOBIAN
        return krylov if large and columns > self.config.krylov else dense

    def _pull(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        noise: noises.Noise,
        residuals: np.ndarray,
    ) -> np.ndarray:
        """Gradient with respect to all coordinates of <residuals, whitened theta>."""
        pulled = self.runs.pulls(images, labels, noise.whiten_transposed(residuals))
        flat = pulled.reshape(len(labels), -1)
        return (flat @ self.coordinates.basis.T).ravel()

    def _candidate(
        self,
        target: _Target,
        labels: np.ndarray,
        images: np.ndarray,
        noise: noises.Noise,
        here: Point,
        slopes: gauss_newton.Slopes,
    ) -> _Candidate:
        """The result, with its certificate."""
        config, params = self.config, len(target.theta)
        at_end = self._noise(target, images, labels)
        found = self.runs.thetas(images[None], labels[None])[0]
        residual = found - target.theta
        cost = np.sum(at_end.whiten(residual) ** 2)
        explained = bool(cost <= config.noise_factor * params)
        lengths = np.tile(np.sum(self.coordinates.basis**2, axis=1), len(labels))
        variances = slopes.posterior_variances()
        expected = float(np.sum(variances * lengths) / len(lengths))
        return _Candidate(
            images=images.astype(np.float32),
            labels=labels,
            residual=float(residual @ residual),
            explained=explained,
            certified=explained and expected <= config.exact_mse,
            expected_mse=expected,
        )
