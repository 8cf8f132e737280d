"""A service: a model of its rows, and the ways in which it deletes some of them."""

import abc
import dataclasses
import functools
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from uninformed.deletion.config import DeletionConfig
from uninformed.deletion.data import LabelledRows, Sides
from uninformed.deletion.models import (
    Affine,
    Fourier,
    TanhNetwork,
    median_distance,
    softmax,
    with_ones,
)

# Least share of the right class whose logarithm is taken, above underflow in float64.
_LEAST_SHARE = 1e-300


class Service(abc.ABC):
    """A trained model, and how rows are deleted from it.

    Attributes:
      theta: the released parameters, (params,).
      model: the loss, its decay, and how it is minimised.
      rows: the training set.
      features: random features that the model is affine in; None: it takes rows.
      tuning_steps: gradient steps of fine-tuning and of ascent.
    """

    theta: np.ndarray
    model: Any
    rows: LabelledRows
    features: Fourier | None
    tuning_steps: int

    @abc.abstractmethod
    def without(self, rows: np.ndarray, method: str) -> np.ndarray:
        """theta with these rows deleted in one of `METHODS`, (params,)."""

    @abc.abstractmethod
    def curved(self, v: np.ndarray, rows: LabelledRows, scale: float) -> np.ndarray:
        """(scale times the Hessian of these rows' losses + decay) v, at theta."""

    @abc.abstractmethod
    def slope(self, rows: LabelledRows) -> np.ndarray:
        """The gradient of these rows' losses + decay, at theta."""

    @abc.abstractmethod
    def block(self, v: np.ndarray) -> np.ndarray:
        """The first layer's part of a vector like theta, (features + 1, units)."""

    @abc.abstractmethod
    def outputs(self, theta: np.ndarray, rows: LabelledRows) -> np.ndarray:
        """The model's outputs for each row, (rows, outputs)."""

    def losses(self, theta: np.ndarray, rows: LabelledRows) -> np.ndarray:
        """The loss of each row, (rows,)."""
        outputs = self.outputs(theta, rows)
        if self.model.classes:
            shares = np.maximum((softmax(outputs) * rows.y).sum(axis=1), _LEAST_SHARE)
            return -np.log(shares)
        return 0.5 * ((outputs - rows.y) ** 2).sum(axis=1)

    def score(self, theta: np.ndarray, rows: LabelledRows) -> float:
        """Accuracy where labels are classes, otherwise R^2."""
        outputs, y = self.outputs(theta, rows), rows.y
        if y.shape[1] > 1:
            return float((outputs.argmax(axis=1) == y.argmax(axis=1)).mean())
        residual, total = ((outputs - y) ** 2).sum(), ((y - y.mean(axis=0)) ** 2).sum()
        return float(1 - residual / total)

    def _tuned(
        self,
        method: str,
        theta: np.ndarray,
        rate: float,
        stay: tuple[np.ndarray, np.ndarray],
        gone: tuple[np.ndarray, np.ndarray],
    ) -> np.ndarray:
        """theta after some descent on the rows that stay, or ascent on those gone."""
        for _ in range(self.tuning_steps):
            if method == "fine_tune":
                slope = self.model.gradient(theta, *stay) + self.model.decay * theta
            else:
                slope = -self.model.gradient(theta, *gone)
            theta = theta - rate * slope
        return theta


@dataclasses.dataclass(eq=False)
class AffineService(Service):
    """Ridge or softmax regression, on rows or their random features."""

    model: Affine
    rows: LabelledRows
    features: Fourier | None
    tuning_steps: int

    def __post_init__(self) -> None:
        self._f = self._of(self.rows)
        self._shape = (self._f.shape[1], self.rows.y.shape[1])
        self._factor: Any = None
        if not self.model.classes:
            system = self._f.T @ self._f + self.model.decay * np.eye(self._shape[0])
            self._factor = scipy.linalg.cho_factor(system)
            theta = scipy.linalg.cho_solve(self._factor, self._f.T @ self.rows.y)
        else:
            theta = self.model.fit(self._f, self.rows.y)
        self.theta = theta.ravel()

    def without(self, rows: np.ndarray, method: str) -> np.ndarray:
        """See `Service`."""
        theta = self.theta.reshape(self._shape)
        gone_f, gone_y = self._f[rows], self.rows.y[rows]
        # Squared errors: retraining is one Newton step, and has a closed form.
        if not self.model.classes and method in ("retrain", "newton"):
            return self._downdated(theta, gone_f, gone_y).ravel()
        stay_f, stay_y = np.delete(self._f, rows, 0), np.delete(self.rows.y, rows, 0)
        if method in ("retrain", "newton"):
            steps = 50 if method == "retrain" else 1
            return self.model.newton(theta, stay_f, stay_y, steps=steps).ravel()
        # Gradient steps of the length that the largest curvature allows.
        rate = 1.0 / (self._steepest + self.model.decay)
        stay, gone = (stay_f, stay_y), (gone_f, gone_y)
        return self._tuned(method, theta, rate, stay, gone).ravel()

    def _downdated(self, theta: np.ndarray, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The optimum without some rows, exactly (Woodbury)."""
        moved = scipy.linalg.cho_solve(self._factor, f.T)
        system = np.eye(len(f)) - f @ moved
        return theta + moved @ np.linalg.solve(system, f @ theta - y)

    @functools.cached_property
    def _steepest(self) -> float:
        """The largest curvature of the sum of losses, by power iteration."""
        v = np.random.default_rng(0).normal(size=self._shape)
        # The largest eigenvalue is wanted for a rate: 20 products give it well enough.
        for _ in range(20):
            v /= np.linalg.norm(v)
            v = self.model.curved(self.theta.reshape(self._shape), self._f, v)
        return float(np.linalg.norm(v))

    def curved(self, v: np.ndarray, rows: LabelledRows, scale: float) -> np.ndarray:
        """See `Service`."""
        shaped = v.reshape(self._shape)
        theta = self.theta.reshape(self._shape)
        pushed = self.model.curved(theta, self._of(rows), shaped)
        return (scale * pushed + self.model.decay * shaped).ravel()

    def slope(self, rows: LabelledRows) -> np.ndarray:
        """See `Service`."""
        theta = self.theta.reshape(self._shape)
        slope = self.model.gradient(theta, self._of(rows), rows.y)
        return (slope + self.model.decay * theta).ravel()

    def block(self, v: np.ndarray) -> np.ndarray:
        """See `Service`."""
        return v.reshape(self._shape)

    def outputs(self, theta: np.ndarray, rows: LabelledRows) -> np.ndarray:
        """See `Service`."""
        return self._of(rows) @ theta.reshape(self._shape)

    def _of(self, rows: LabelledRows) -> np.ndarray:
        return with_ones(rows.x if self.features is None else self.features(rows.x))


@dataclasses.dataclass(eq=False)
class NetworkService(Service):
    """One hidden layer, trained from the initialisation of a seed."""

    model: TanhNetwork
    rows: LabelledRows
    seed: int
    tuning_steps: int

    def __post_init__(self) -> None:
        self.features = None
        self.theta = self.trained(self.rows, self.seed)

    def trained(self, rows: LabelledRows, seed: int) -> np.ndarray:
        """theta after training on these rows, from this seed's initialisation."""
        return self.model.fit(self.model.initial(seed), rows.x, rows.y)

    def without(self, rows: np.ndarray, method: str) -> np.ndarray:
        """See `Service`."""
        gone = self.rows.take(rows)
        keep = np.setdiff1d(np.arange(len(self.rows)), rows)
        stay = self.rows.take(keep)
        if method == "retrain":
            return self.trained(stay, self.seed)
        if method == "newton":
            slope = self.model.gradient(self.theta, gone.x, gone.y)
            return self.theta + self._solve(stay, slope)
        rate = self.model.rate / len(stay)
        return self._tuned(method, self.theta, rate, (stay.x, stay.y), (gone.x, gone.y))

    def _solve(self, rows: LabelledRows, right: np.ndarray) -> np.ndarray:
        """(Hessian + decay)^-1 right, by conjugate gradients, stopped early."""
        size = len(right)
        operator = scipy.sparse.linalg.LinearOperator(
            (size, size),
            matvec=lambda v: self.curved(v, rows, 1.0),
            dtype=np.float64,
        )
        return scipy.sparse.linalg.cg(operator, right, rtol=1e-6, maxiter=100)[0]

    def curved(self, v: np.ndarray, rows: LabelledRows, scale: float) -> np.ndarray:
        """See `Service`."""
        pushed = self.model.curved(self.theta, rows.x, rows.y, v)
        return scale * pushed + self.model.decay * v

    def slope(self, rows: LabelledRows) -> np.ndarray:
        """See `Service`."""
        slope = self.model.gradient(self.theta, rows.x, rows.y)
        return slope + self.model.decay * self.theta

    def block(self, v: np.ndarray) -> np.ndarray:
        """See `Service`."""
        return v[: self.model.first].reshape(-1, self.model.width)

    def outputs(self, theta: np.ndarray, rows: LabelledRows) -> np.ndarray:
        """See `Service`."""
        return self.model.outputs_of(theta, rows.x)


def make(name: str, config: DeletionConfig, sides: Sides) -> Service:
    """The service with one of `MODELS`."""
    service, count = sides.service, sides.service.x.shape[1]
    if name == "network":
        model = TanhNetwork(
            count,
            service.y.shape[1],
            config.width,
            sides.classes,
            config.network_decay,
            config.steps,
            config.rate,
        )
        return NetworkService(model, service, config.seed, config.tuning_steps)
    features = None
    if name == "fourier":
        scale = median_distance(sides.public.x, config.seed)
        features = Fourier.draw(count, config.features, scale, config.seed)
    classes = sides.classes and name != "ridge"
    return AffineService(
        Affine(classes, config.decay), service, features, config.tuning_steps
    )
