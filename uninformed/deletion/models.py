"""The models of a service: ridge and softmax regression, random features, a network.

All minimise the sum of losses over rows plus decay / 2 |theta|^2. All weights decay,
intercepts and biases included.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from jaxtyping import Array, Float

Coefs = Float[np.ndarray, "features outputs"]
FlatTheta = Float[np.ndarray, " params"]


@dataclasses.dataclass(frozen=True)
class Affine:
    """Ridge or softmax regression; the last feature is 1, for the intercept.

    Attributes:
      classes: whether the loss is softmax cross-entropy; otherwise it is half the
        squared error.
      decay: lambda, the weight of |theta|^2 / 2 beside the sum of losses over rows.
    """

    classes: bool
    decay: float

    def errors(self, theta: Coefs, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The derivative of each row's loss by the outputs, (rows, outputs)."""
        outputs = f @ theta
        return (softmax(outputs) if self.classes else outputs) - y

    def loss(self, theta: Coefs, f: np.ndarray, y: np.ndarray) -> float:
        """The sum of losses over rows, and the decay."""
        outputs = f @ theta
        if self.classes:
            top = outputs.max(axis=1, keepdims=True)
            total = np.log(np.exp(outputs - top).sum(axis=1)) + top[:, 0]
            fit = float((total - (outputs * y).sum(axis=1)).sum())
        else:
            fit = 0.5 * float(((outputs - y) ** 2).sum())
        return fit + 0.5 * self.decay * float((theta**2).sum())

    def gradient(self, theta: Coefs, f: np.ndarray, y: np.ndarray) -> Coefs:
        """Sum over rows, without the decay."""
        return f.T @ self.errors(theta, f, y)

    def curved(self, theta: Coefs, f: np.ndarray, v: Coefs) -> Coefs:
        """The Hessian of the rows' losses, without the decay, times v."""
        pushed = f @ v
        if self.classes:
            shares = softmax(f @ theta)
            pushed = shares * (pushed - (shares * pushed).sum(axis=1, keepdims=True))
        return f.T @ pushed

    def newton(
        self, theta: Coefs, f: np.ndarray, y: np.ndarray, *, steps: int = 50
    ) -> Coefs:
        """Newton's steps until the gradient is at rounding, or `steps` of them."""
        # Rounding: the gradient sums as many features as a row has.
        size = 1e-11 * (1.0 + np.abs(f).sum() / len(f))
        for _ in range(steps):
            slope = self.gradient(theta, f, y) + self.decay * theta
            if np.abs(slope).max() <= size:
                break
            step = self._solve(theta, f, -slope)
            # Half the step as long as the loss rises; a single step is taken whole.
            before, scale = self.loss(theta, f, y), 1.0
            while steps > 1 and scale > 1e-6:
                if self.loss(theta + scale * step, f, y) <= before + 1e-12 * abs(
                    before
                ):
                    break
                scale /= 2
            theta = theta + scale * step
        return theta

    def _solve(self, theta: Coefs, f: np.ndarray, right: Coefs) -> Coefs:
        """(Hessian + decay)^-1 right."""
        features, outputs = theta.shape
        if not self.classes:
            system = f.T @ f + self.decay * np.eye(features)
            return scipy.linalg.cho_solve(scipy.linalg.cho_factor(system), right)

        def product(v: np.ndarray) -> np.ndarray:
            v = v.reshape(features, outputs)
            return (self.curved(theta, f, v) + self.decay * v).ravel()

        size = features * outputs
        operator = scipy.sparse.linalg.LinearOperator(
            (size, size), matvec=product, dtype=np.float64
        )
        found, _ = scipy.sparse.linalg.cg(
            operator, right.ravel(), rtol=1e-9, maxiter=4 * min(size, 250)
        )
        return found.reshape(features, outputs)

    def fit(self, f: np.ndarray, y: np.ndarray) -> Coefs:
        """The optimum."""
        start = np.zeros((f.shape[1], y.shape[1]))
        return self.newton(start, f, y)


def softmax(outputs: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    shares = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def with_ones(x: np.ndarray) -> np.ndarray:
    """Rows with a last column of ones."""
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


# Random features


@dataclasses.dataclass(frozen=True, eq=False)
class Fourier:
    """Features sqrt(2 / count) cos(x @ frequencies + phases); Rahimi and Recht 2007.

    Attributes:
      frequencies: normal numbers over the length scale, (inputs, count).
      phases: uniform numbers in [0, 2 pi], (count,).
    """

    frequencies: Float[np.ndarray, "inputs count"]
    phases: Float[np.ndarray, " count"]

    @classmethod
    def draw(cls, inputs: int, count: int, scale: float, seed: int) -> "Fourier":
        """The random features of a Gaussian kernel with this length scale."""
        generator = np.random.default_rng(seed)
        return cls(
            generator.normal(size=(inputs, count)) / scale,
            generator.uniform(0, 2 * np.pi, count),
        )

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The features of each row, (rows, count)."""
        scale = np.sqrt(2.0 / len(self.phases))
        return scale * np.cos(x @ self.frequencies + self.phases)

    def invert(
        self,
        features: Float[np.ndarray, " count"],
        starts: np.ndarray,
        *,
        tries: int = 3,
    ) -> Float[np.ndarray, " inputs"]:
        """A row with these features: least squares, from the nearest of some rows.

        Args:
          features: features of the wanted row, as far as they are known.
          starts: rows to begin at, (rows, inputs).
          tries: number of rows that are tried, the nearest first: the features are
            periodic, and a descent from one row may end in another minimum.
        """
        near = np.argsort(((self(starts) - features) ** 2).sum(axis=1))[:tries]
        found = [self._descend(features, starts[index]) for index in near]
        return min(found, key=lambda each: each[1])[0]

    def _descend(
        self, features: np.ndarray, x: np.ndarray, *, steps: int = 60
    ) -> tuple[np.ndarray, float]:
        """Levenberg-Marquardt from one row: (row, squared residual)."""
        scale = np.sqrt(2.0 / len(self.phases))
        left = self(x[None])[0] - features
        cost, damping = float(left @ left), 1e-3
        for _ in range(steps):
            waves = scale * np.sin(x @ self.frequencies + self.phases)
            # Minus the gradient, and the Gauss-Newton matrix.
            slope = self.frequencies @ (waves * left)
            curved = (self.frequencies * waves**2) @ self.frequencies.T
            mean = float(np.trace(curved)) / len(x)
            step = np.linalg.solve(curved + damping * mean * np.eye(len(x)), slope)
            tried = self(x[None] + step[None])[0] - features
            if (new := float(tried @ tried)) < cost:
                done = cost - new <= 1e-12 * cost
                x, left, cost, damping = x + step, tried, new, damping / 5
                if done:
                    break
            elif (damping := damping * 5) > 1e6:
                break
        return x, cost


def median_distance(x: np.ndarray, seed: int) -> float:
    """The median distance between rows, a usual length scale."""
    some = x[np.random.default_rng(seed).permutation(len(x))[:200]]
    squares = ((some[:, None] - some[None]) ** 2).sum(axis=2)
    return float(np.sqrt(np.median(squares[squares > 0])))


# One hidden layer


@dataclasses.dataclass(frozen=True)
class TanhNetwork:
    """One hidden layer of tanh, trained by gradient descent on all rows, in float64.

    theta is both layers as one vector; the last row of each layer are its biases.

    Attributes:
      inputs: number of features of a row, without a column of ones.
      outputs: number of outputs.
      width: number of units of the hidden layer.
      classes: whether the loss is softmax cross-entropy; otherwise it is half the
        squared error.
      decay: lambda, the weight of |theta|^2 / 2 beside the sum of losses over rows.
      steps: number of steps of gradient descent with momentum 0.9.
      rate: learning rate of these steps, on the mean loss.
    """

    inputs: int
    outputs: int
    width: int
    classes: bool
    decay: float
    steps: int
    rate: float

    @property
    def first(self) -> int:
        """Number of parameters of the first layer, which come first in theta."""
        return (self.inputs + 1) * self.width

    def initial(self, seed: int) -> FlatTheta:
        """A draw of the initialisation."""
        generator = np.random.default_rng(seed)
        first = generator.normal(size=(self.inputs + 1, self.width))
        second = generator.normal(size=(self.width + 1, self.outputs))
        first[-1], second[-1] = 0.0, 0.0
        scales = np.sqrt(self.inputs), np.sqrt(self.width)
        return np.concatenate(
            [(first / scales[0]).ravel(), (second / scales[1]).ravel()]
        )

    def fit(self, start: FlatTheta, x: np.ndarray, y: np.ndarray) -> FlatTheta:
        """theta after training from a start."""
        with jax.enable_x64(True):
            return np.asarray(_trained(self, jnp.asarray(start), x, y))

    def gradient(self, theta: FlatTheta, x: np.ndarray, y: np.ndarray) -> FlatTheta:
        """Sum over rows, without the decay."""
        with jax.enable_x64(True):
            return np.asarray(_slope(self, jnp.asarray(theta), x, y))

    def curved(
        self, theta: FlatTheta, x: np.ndarray, y: np.ndarray, v: FlatTheta
    ) -> FlatTheta:
        """The Hessian of the rows' losses, without the decay, times v."""
        with jax.enable_x64(True):
            return np.asarray(_curved(self, jnp.asarray(theta), x, y, jnp.asarray(v)))

    def outputs_of(self, theta: FlatTheta, x: np.ndarray) -> np.ndarray:
        """The outputs of each row, (rows, outputs)."""
        with jax.enable_x64(True):
            return np.asarray(_outputs(self, jnp.asarray(theta), jnp.asarray(x)))


def _outputs(network: TanhNetwork, theta: Array, x: Array) -> Array:
    first = theta[: network.first].reshape(network.inputs + 1, network.width)
    second = theta[network.first :].reshape(network.width + 1, network.outputs)
    hidden = jnp.tanh(x @ first[:-1] + first[-1][None])
    return hidden @ second[:-1] + second[-1][None]


def _loss(network: TanhNetwork, theta: Array, x: Array, y: Array) -> Array:
    outputs = _outputs(network, theta, x)
    if network.classes:
        return -(jax.nn.log_softmax(outputs) * y).sum()
    return 0.5 * ((outputs - y) ** 2).sum()


@functools.partial(jax.jit, static_argnums=0)
def _slope(network: TanhNetwork, theta: Array, x: Array, y: Array) -> Array:
    return jax.grad(_loss, argnums=1)(network, theta, x, y)


@functools.partial(jax.jit, static_argnums=0)
def _curved(network: TanhNetwork, theta: Array, x: Array, y: Array, v: Array) -> Array:
    slope = functools.partial(jax.grad(_loss, argnums=1), network)
    return jax.jvp(lambda t: slope(t, x, y), (theta,), (v,))[1]


@functools.partial(jax.jit, static_argnums=0)
def _trained(network: TanhNetwork, theta: Array, x: Array, y: Array) -> Array:
    def step(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        theta, speed = state
        slope = jax.grad(_loss, argnums=1)(network, theta, x, y)
        slope = (slope + network.decay * theta) / len(x)
        speed = 0.9 * speed - network.rate * slope
        return theta + speed, speed

    return jax.lax.fori_loop(0, network.steps, step, (theta, jnp.zeros_like(theta)))[0]
