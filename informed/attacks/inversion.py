"""Inverting the training itself: exact reconstruction without a shadow model.

THREAT: knows D_-, the training algorithm A and its initialisation (and, for
mini-batches, their order), and has public images. White-box release. The label may be
unknown.

A is deterministic and differentiable, so the target is the solution of

    min_z |A(D_- + z) - theta|^2

found by a damped Gauss-Newton method through the whole training run. What makes it
work:

- z in principal components of public images, scaled by their standard deviations: a
  Gaussian prior, and a well-conditioned problem. Few components first, all pixels last;
  the map bends too much for a start in all of them.
- Forward-mode derivatives: one training run carries a block of tangents, so memory is a
  block of copies of the optimiser's state, whatever the number of epochs.
- All dampings of a step are tried at once, as one batch of training runs.
- Broyden's update keeps a Jacobian useful after a step; a fresh one, by far the largest
  cost, is computed only when the old one no longer helps.

The certificate: at a true target the residual is the rounding noise of A, which the
adversary measures by training again with z changed in its last digits. So they know
*without the target* whether the reconstruction is exact.

Source: ours. Deterministic: the key is not used.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from informed.threat import Knowledge, Reconstruction, Release
from shadow import checks
from shadow.training import algorithm

_DAMPINGS = 10.0 ** np.arange(-7, 3)  # relative to the squared residual
_NOISE_RUNS = 8
_LAST_DIGITS = 1e-6
_SMALLEST_DEVIATION = 1e-3


@dataclasses.dataclass(frozen=True, kw_only=True)
class InversionConfig:
    """How hard to try.

    Attributes:
      components: numbers of principal components of the stages before the last; the
        last stage has all pixels. Those that are not fewer than the pixels are left
        out.
      steps: Gauss-Newton steps a stage, at most.
      label_components, label_steps: of the stage that ranks the candidate labels.
      labels_tried: labels that are tried to the end, best first, until one is
        certified.
      tangents: derivatives carried by one training run; a matter of speed and memory.
      noise_factor: certified if the squared residual is at most this many times the
        squared rounding noise of A.
    """

    components: tuple[int, ...] = (16, 60, 300)
    steps: int = 8
    label_components: int = 30
    label_steps: int = 4
    labels_tried: int = 3
    tangents: int = 32
    noise_factor: float = 10.0

    def __post_init__(self) -> None:
        for field in ("steps", "label_steps", "labels_tried", "tangents"):
            checks.at_least(f"inversion.{field}", getattr(self, field), 1)
        checks.at_least("inversion.noise_factor", self.noise_factor, 1)


@dataclasses.dataclass(frozen=True)
class TrainingInversion:
    """The attack; see the module's docstring."""

    config: InversionConfig = dataclasses.field(default_factory=InversionConfig)

    def __call__(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Reconstruction:
        """Reconstruct the target of every release, one after the other.

        Args:
          release: trained models.
          knowledge: needs fixed, victim, training and initialisation; for mini-batches
            shuffling_key. Uses public and labels where they are told.
        Returns: images, not cut to [0, 1]; labels; squared residuals; certified.
        Raises: ValueError: a fact that it needs is None.
        """
        del key
        problem = _Problem(knowledge, self.config)
        told: list[int | None] = [None] * len(release.weights)
        if knowledge.labels is not None:
            told = [int(label) for label in knowledge.labels]
        found = [
            self._one(problem, theta, label)
            for theta, label in zip(release.weights, told, strict=True)
        ]
        return Reconstruction(
            images=np.stack([problem.image(each.u) for each in found]),
            labels=np.array([each.label for each in found]),
            residuals=np.array([each.residual for each in found]),
            certified=np.array([each.certified for each in found]),
        )

    def _one(
        self, problem: "_Problem", theta: np.ndarray, label: int | None
    ) -> "_Candidate":
        """One target: rank labels, then solve for the best until one is certified."""
        config = self.config
        start = np.zeros(problem.pixels, np.float32)
        labels = [label] if label is not None else self._rank(problem, theta, start)
        best: _Candidate | None = None
        for tried in labels[: config.labels_tried]:
            u, residual = start, np.inf
            for components in problem.stages:
                u, residual = _minimise(
                    problem, theta, tried, u, components, config.steps
                )
            noise = problem.noise(u, tried)
            certified = bool(residual <= config.noise_factor * noise)
            candidate = _Candidate(u, tried, residual, certified)
            if best is None or residual < best.residual:
                best = candidate
            if certified:
                break
        assert best is not None
        return best

    def _rank(
        self, problem: "_Problem", theta: np.ndarray, start: np.ndarray
    ) -> list[int]:
        """All labels, by the residual of a cheap stage."""
        components = min(self.config.label_components, problem.pixels)
        residuals = [
            _minimise(
                problem, theta, label, start, components, self.config.label_steps
            )[1]
            for label in range(problem.num_classes)
        ]
        return [int(label) for label in np.argsort(residuals)]


@dataclasses.dataclass(frozen=True)
class _Candidate:
    u: np.ndarray
    label: int
    residual: float
    certified: bool


class _Problem:
    """theta as a function of z's coordinates, its derivatives, its rounding noise."""

    def __init__(self, knowledge: Knowledge, config: InversionConfig) -> None:
        needed = ["fixed", "victim", "training", "initialisation"]
        if knowledge.training is not None and knowledge.training.batch_size is not None:
            needed.append("shuffling_key")
        missing = [name for name in needed if getattr(knowledge, name) is None]
        if missing:
            raise ValueError(
                f"Training inversion needs to be told {', '.join(missing)}; this"
                " adversary isn't."
            )
        assert knowledge.fixed is not None
        assert knowledge.victim is not None
        assert knowledge.training is not None
        assert knowledge.initialisation is not None
        victim, fixed = knowledge.victim, knowledge.fixed
        self.image_shape = victim.image_shape
        self.num_classes = victim.num_classes
        self.pixels = int(np.prod(self.image_shape))
        self.stages = [m for m in config.components if m < self.pixels] + [self.pixels]
        public = [fixed.images]
        if knowledge.public is not None:
            public.append(knowledge.public.images)
        self.mean, self.basis = principal_components(np.concatenate(public))
        self._tangents = min(config.tangents, self.pixels)

        train = algorithm(victim, knowledge.training)
        dtype = jnp.result_type(float)  # float64 where JAX has it enabled
        init = victim.unflatten(jnp.asarray(knowledge.initialisation, dtype))
        key = knowledge.shuffling_key
        key = jax.random.key(0) if key is None else key
        data = (jnp.asarray(fixed.images, dtype), jnp.asarray(fixed.labels))
        mean, basis = jnp.asarray(self.mean, dtype), jnp.asarray(self.basis, dtype)

        def theta(data: tuple, u: Array, label: Array) -> Array:
            image = (mean + u @ basis).reshape(self.image_shape)
            return victim.flatten(train(init, data, (image, label), key))

        def columns(data: tuple, u: Array, label: Array, first: Array) -> tuple:
            which = first + jnp.arange(self._tangents)
            tangents = jax.nn.one_hot(which, self.pixels, dtype=u.dtype)
            return jax.vmap(
                lambda t: jax.jvp(lambda u: theta(data, u, label), (u,), (t,)),
                out_axes=(None, 1),
            )(tangents)

        self._columns: Callable = functools.partial(jax.jit(columns), data)
        self._many: Callable = functools.partial(
            jax.jit(jax.vmap(theta, in_axes=(None, 0, None))), data
        )

    def image(self, u: np.ndarray) -> np.ndarray:
        """The image at coordinates u, summed in float64."""
        flat = self.mean + u.astype(np.float64) @ self.basis.astype(np.float64)
        return flat.reshape(self.image_shape).astype(np.float32)

    def thetas(self, us: np.ndarray, label: int) -> np.ndarray:
        """A at several points, in one batch; (points, params)."""
        return np.asarray(self._many(jnp.asarray(us), jnp.int32(label)), np.float64)

    def jacobian(
        self, u: np.ndarray, label: int, components: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """A at u and its derivatives in the first components; (params, components)."""
        parts = []
        for first in range(0, components, self._tangents):
            value, part = self._columns(
                jnp.asarray(u), jnp.int32(label), jnp.int32(first)
            )
            parts.append(np.asarray(part, np.float64))
        whole = np.concatenate(parts, axis=1)[:, :components]
        return np.asarray(value, np.float64), whole

    def noise(self, u: np.ndarray, label: int) -> float:
        """Squared rounding noise of A at u: trained with u's last digits changed."""
        rng = np.random.default_rng(0)
        near = u * (1 + _LAST_DIGITS * rng.standard_normal((_NOISE_RUNS + 1, len(u))))
        near[0] = u
        values = self.thetas(near.astype(np.float32), label)
        return float(np.mean(np.sum((values[1:] - values[0]) ** 2, axis=1)))


def principal_components(
    images: Float[np.ndarray, "images height width channels"],
) -> tuple[Float[np.ndarray, "pixels"], Float[np.ndarray, "pixels pixels"]]:
    """Mean image, and principal components times their standard deviations.

    Directions that hardly vary get a small deviation, so that the components span all
    images.

    Returns: mean (pixels,) and basis (components, pixels), float32, largest first.
    """
    flat = images.reshape(len(images), -1).astype(np.float64)
    mean = flat.mean(axis=0)
    covariance = np.cov(flat - mean, rowvar=False)
    variances, directions = np.linalg.eigh(covariance)
    deviations = np.sqrt(np.maximum(variances[::-1], _SMALLEST_DEVIATION**2))
    basis = directions[:, ::-1].T * deviations[:, None]
    return mean.astype(np.float32), basis.astype(np.float32)


def _minimise(
    problem: _Problem,
    theta: np.ndarray,
    label: int,
    u: np.ndarray,
    components: int,
    steps: int,
) -> tuple[np.ndarray, float]:
    """Damped Gauss-Newton in the first components of u.

    Returns: the best u found and its squared residual.
    """
    value, jacobian = problem.jacobian(u, label, components)
    fresh, residual = True, float(np.sum((value - theta) ** 2))
    for _ in range(steps):
        gram = jacobian.T @ jacobian
        slope = jacobian.T @ (value - theta)
        spectrum, rotation = np.linalg.eigh(gram)
        damped = spectrum[None] + (_DAMPINGS * residual)[:, None]
        moves = -(rotation.T @ slope)[None] / damped @ rotation.T
        tried = np.tile(u, (len(moves), 1))
        tried[:, :components] += moves.astype(np.float32)
        values = problem.thetas(tried, label)
        costs = np.nan_to_num(np.sum((values - theta) ** 2, axis=1), nan=np.inf)
        best = int(np.argmin(costs))
        gain = residual / costs[best] if costs[best] > 0 else np.inf
        if gain > 1:
            move = tried[best, :components].astype(np.float64) - u[:components]
            change = values[best] - value
            # Broyden: the smallest change of the Jacobian that explains the step.
            error = change - jacobian @ move
            jacobian += np.outer(error, move / (move @ move))
            u, value, residual = tried[best], values[best], float(costs[best])
        if gain < 2:
            if fresh:
                break
            value, jacobian = problem.jacobian(u, label, components)
        fresh = gain < 2
    return u, residual
