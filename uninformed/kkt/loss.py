"""The loss that the KKT attack minimises, and the start of a run.

`descent` minimises it; `scoring` also calls `span` and `directions`, and
`landscape.runs` calls `span`. The terms, with the corresponding equations of Haim et
al. 2022:

stationarity  | theta - sum_i <c_i, grad Phi(x_i)> |^2 (6), see `stationarity`
dual          multipliers below lambda_min (7)
prior         pixels outside their range (8)
margin        squared distances of candidates from one common margin; ours

theta are the weights, Phi the network, x_i candidates, c_i their coefficients. The
published loss (9) is the sum of the first three.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from uninformed import homogeneous
from uninformed import max_margin as margin
from uninformed.homogeneous import DenseLayers
from uninformed.kkt import stationarity
from uninformed.kkt.kkt_config import KktConfig

# Random points to estimate the root mean square of a layer's sums, to a few percent.
_FEW = 256
# Multiplier of a restarted candidate, in units. A candidate's gradient is proportional
# to its multiplier, so with none it would never move.
FLOOR = 0.1
# Singular values below this share of the largest are rounding in float32.
_ROUNDING = 1e-6
# The first layer's span may end where neighbouring singular values drop by more than
# this factor: larger takes noise for signal, smaller cuts weak training points off.
_DROP = 5.0
# Smallest number of singular values to estimate the size of noise from; with fewer, the
# smallest is wrong by a tenth or more.
_FEWEST = 20
# Least difference of the square roots of a noise matrix's sides, relative to the longer
# one's. Nearly square noise has singular values near 0, which don't show its size.
_FLAT = 0.1
# Share of a trained layer's squared norm that no points explain, at best: victims near
# a KKT point leave a residual of 0.1 to 0.15 of the norm, 0.01 to 0.02 of its square.
_UNEXPLAINED = 0.02


class KktUnknowns(NamedTuple):
    """Candidates (candidates, inputs), and multipliers in units of `Begin.unit`.

    With a basis, candidates are coordinates (candidates, rank), in units of
    `KktProblem.spread`. Multipliers are (candidates,), or signed (candidates, outputs).
    """

    points: Any
    multipliers: Any


class Begin(NamedTuple):
    """The start of a run, and the constants that are computed there.

    `key` is for restarts, and `scales`, (hidden layers,), are root mean squares of the
    layers' sums, which the slope alpha of the sigmoid is divided by.
    """

    unknowns: KktUnknowns
    key: Array
    unit: Array
    scales: Array


class KktProblem:
    """The loss of one network, compiled from its configuration.

    Attributes:
      basis: (rank, inputs), orthonormal rows that span the first layer's weights; None:
        candidates are free in all inputs.
      spread: (1, rank), units of the coordinates in that span; (1, 1), one, if
        candidates are free.
      units: (rank,), units of the residual in these directions; None: all are 1.
      network: theta, its first layer restricted to that span.
      labels: (candidates,), classes assumed for the candidates, in equal shares.
      squared: |theta|^2.
      weights: (layers,), weights of the layers' squared residuals.
    """

    def __init__(
        self, config: KktConfig, network: DenseLayers, mean: np.ndarray | None
    ) -> None:
        self.config = config
        self._shift = np.zeros((1, 1), np.float32) if mean is None else mean[None]
        self.basis = span(np.asarray(network[0].w)) if config.span else None
        self.spread: Any = np.ones((1, 1), np.float32)
        self.units: np.ndarray | None = None
        # Standard deviation of a coordinate in the span over that of a pixel.
        self._stretch = 1.0
        if self.basis is not None:
            rank, pixels = self.basis.shape
            self._stretch = float(np.sqrt(pixels / rank))
            inside = self.basis @ np.asarray(network[0].w)
            network = (homogeneous.Layer(inside, network[0].b), *network[1:])
            sizes = np.linalg.norm(inside, axis=1)
            if config.spectrum:
                spread = sizes**config.spectrum
                self.spread = (spread / np.sqrt(np.mean(spread**2)))[None]
            if config.whitening:
                # The layer as a whole keeps its norm.
                units = sizes**-config.whitening
                self.units = units * np.sqrt(
                    np.sum(sizes**2) / np.sum((units * sizes) ** 2)
                )
        self.network = jax.tree.map(jnp.asarray, network)
        self.outputs = network[-1].w.shape[1]
        self.labels = margin.equal_shares(config.candidates, max(self.outputs, 2))
        norms = np.array(
            [float(homogeneous.squared_norm((layer,))) for layer in network]
        )
        self.squared, grown = float(norms.sum()), norms.min()
        if config.layers == "alike":
            weights, total = np.ones(len(norms)), norms.sum()
        else:
            # Initial weights are noise, and so is a share of the trained part of every
            # layer; residuals are weighted by the inverse of this noise.
            weights = _UNEXPLAINED * grown / (norms - grown + _UNEXPLAINED * grown)
            total = (weights * grown).sum()
        self.weights = weights / total if config.relative else weights
        # The form of fewer multiplications.
        inner = sum(config.candidates * sum(layer.w.shape) for layer in network)
        gram = inner < sum(2 * layer.w.size for layer in network)
        self._residual = stationarity.gram if gram else stationarity.plain

    def pixels(self, points: Any) -> Any:
        """Return points in pixels, (candidates, inputs)."""
        return points if self.basis is None else (points * self.spread) @ self.basis

    def random_points(self, key: Array) -> Array:
        """Draw normal unknowns, of standard deviation sigma_x per pixel."""
        shape = (self.config.candidates, self.network[0].w.shape[0])
        drawn = jax.random.normal(key, shape, self.network[0].w.dtype)
        return jnp.asarray(self.config.start, drawn.dtype) * self._stretch * drawn

    def begin(self, key: Array, start: Array | None = None) -> Begin:
        """Start a run: candidates, at `start` if given, and multipliers in units."""
        config, m = self.config, self.config.candidates
        dtype = self.network[0].w.dtype
        points_key, multipliers_key, few_key, later_key = jax.random.split(key, 4)
        unknown = self.random_points(points_key)
        if start is not None:
            inside = start if self.basis is None else start @ self.basis.T
            unknown = inside / self.spread
        points = unknown * self.spread
        # The scale of alpha: sums at normal points with a quarter of the range's width.
        scales = jnp.ones(len(self.network) - 1, dtype)
        if config.alpha_units == "typical":
            few = jax.random.normal(few_key, (_FEW, points.shape[1]), dtype)
            spread = (config.high - config.low) / 4 * self._stretch * self.spread
            scales = stationarity.typical_sums(self.network, spread * few)
        # Multipliers, and the unit in which they are optimised.
        unit = jnp.asarray(1 / m if config.units == "per_candidate" else 1.0, dtype)
        alpha = config.alpha / scales
        signed = config.coefficients == "signed"
        if signed:
            drawn = jax.random.normal(multipliers_key, (m, self.outputs), dtype)
            towards = drawn
        else:
            drawn = jax.random.uniform(multipliers_key, (m,), dtype)
            towards = directions(homogeneous.apply(self.network, points), self.labels)
        if config.units == "fitted":
            fitted = stationarity.best_multipliers(
                self.network, points, towards, alpha, signed=signed
            )
            if signed:
                drawn *= np.sign(fitted)[:, None]
            # Twice the mean, because uniform multipliers have a mean of 1/2.
            mean = 2 * (float(fitted.mean()) or 1.0)
            unit = jnp.asarray(np.abs(fitted).mean() if signed else mean, dtype)
        return Begin(KktUnknowns(unknown, drawn), later_key, unit, scales)

    def loss(
        self, unknowns: KktUnknowns, begin: Begin, alpha: Array | float
    ) -> tuple[Array, tuple[Array, Array]]:
        """Sum all terms, at one slope of the sigmoid.

        Returns: the loss; squared residuals (layers,), without `units`, and
          coefficients (candidates, outputs).
        """
        config, points = self.config, unknowns.points * self.spread
        signed = config.coefficients == "signed"
        # Directions depend on the outputs; the compiler merges this forward pass with
        # that of `passes`.
        multipliers = unknowns.multipliers
        if signed:
            towards: Any = 1
            coefficients = begin.unit * multipliers
        else:
            outputs = homogeneous.apply(self.network, points)
            towards = directions(outputs, self.labels)
            coefficients = begin.unit * multipliers[:, None] * towards
        # Stationarity, equation (6).
        at = stationarity.passes(
            self.network, points, coefficients, alpha / begin.scales
        )
        layers = counted = self._residual(self.network, at)
        if self.units is not None:
            counted = self._residual(
                *stationarity.in_units(self.network, at, jnp.asarray(self.units))
            )
        total = jnp.sum(jnp.asarray(self.weights, layers.dtype) * counted)
        if not signed:
            # Dual feasibility, equation (7).
            missing = jax.nn.relu(config.least_multiplier - multipliers)
            lack = jnp.sum(missing**2 if config.dual == "squared" else missing)
            lack = lack / config.candidates if config.relative else lack
            total += config.dual_weight * lack
            # One margin for all candidates.
            if config.margin_weight:
                leads = jnp.sum(at.sums[-1] * towards, axis=1)
                total += self._off_margin(leads, begin.unit * multipliers)
        # The range of pixels, equation (8).
        pixels = self.pixels(unknowns.points)
        above = jax.nn.relu(pixels + self._shift - config.high)
        below = jax.nn.relu(config.low - self._shift - pixels)
        if config.prior == "squared":
            above, below = above**2, below**2
        outside = jnp.sum(above + below)
        outside = outside / pixels.shape[1] if config.prior_mean else outside
        total += config.prior_weight * outside
        return total, (layers, coefficients)

    def _off_margin(self, leads: Array, multipliers: Array) -> Array:
        """Average squared distances from the margin, weighted by multipliers.

        The margin follows from Euler's identity: with L layers, multipliers sum to
        |theta|^2 / (L margin).
        """
        weights = jax.nn.relu(multipliers)
        total = weights.sum() + jnp.finfo(weights.dtype).tiny
        common = self.squared / (len(self.network) * jax.lax.stop_gradient(total))
        off = jnp.sum(weights * (leads / common - 1) ** 2) / total
        return self.config.margin_weight * off


def directions(
    outputs: Float[Array, "points outputs"], labels: Int[Array, " points"]
) -> Float[Array, "points outputs"]:
    """Return the directions that multipliers scale: y, or e_label - e_runner-up."""
    count = outputs.shape[1]
    if count == 1:
        return margin.signs(labels)[:, None].astype(outputs.dtype)
    right = jax.nn.one_hot(labels, count, dtype=outputs.dtype)
    rivals = jnp.where(right > 0, -jnp.inf, outputs)
    return right - jax.nn.one_hot(rivals.argmax(axis=1), count, dtype=outputs.dtype)


def span(w: Float[np.ndarray, "inputs units"]) -> np.ndarray | None:
    """Return orthonormal rows that span the columns of w, without initial noise.

    Initial noise hides the weakest trained directions, so only singular values above
    the largest possible for such noise count. If there is no such noise, the span ends
    at the greatest drop of singular values, if that exceeds a factor of five.

    Returns: (rank, inputs); None: the rank is that of the inputs, or 0 as for an
      untrained layer.
    """
    rotation, sizes, _ = np.linalg.svd(w, full_matrices=False)
    sizes = np.maximum(sizes, _ROUNDING * sizes[0])
    rank = _above_noise(sizes, *w.shape)
    drops = sizes[:-1] / sizes[1:]
    if rank == len(sizes) and len(drops) and drops.max() > _DROP:
        rank = int(drops.argmax()) + 1
    return rotation[:, :rank].T if 0 < rank < len(w) else None


def _above_noise(sizes: np.ndarray, inputs: int, units: int) -> int:
    """Count the singular values, falling, that exceed those of independent noise.

    Noise of standard deviation sigma has singular values between sigma times the
    difference and the sum of the square roots of its sides (Marchenko & Pastur 1967).
    The smallest gives sigma. If less than half lie in this range, the small ones aren't
    noise, and all are counted.
    """
    rank, before = 0, -1
    # Each value above the noise reduces the noise's sides by one, so the rank grows.
    while rank > before:
        long, short = np.sqrt(max(inputs, units) - rank), np.sqrt(len(sizes) - rank)
        if long - short < _FLAT * long:
            return len(sizes)
        edge = sizes[-1] * (long + short) / (long - short)
        rank, before = int((sizes > edge).sum()), rank
    noise = len(sizes) - rank
    return rank if noise >= max(_FEWEST, len(sizes) / 2) else len(sizes)
