"""The subject of an audit: the user's training function with its data, split up.

The data are split into four: D_-, which the adversary knows; targets, which the
adversary doesn't know; public records, on which the adversary trains shadow models; and
more public records for accuracy and for queries. Every model is trained on D_- and one
more record. `auditing` calls `prepare`, and `preflight` sets how models are trained.
`Subject.algorithm` makes the function a training algorithm A (`shadow`), so that audits
play the same attacks as runs; `run` and `Call` are what it sends to other processes.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from informed.audit.contract import NOISE, Contract
from shadow import checks, data, released
from shadow.data import Examples
from shadow.factory import Factory
from shadow.tables import Table
from shadow.training import Algorithm, JaxFunction, PythonFunction
from shadow.training.algorithm import Capabilities
from shadow.victims import Slice
from shadow.views import Layers

# Largest number of public records for accuracy and queries.
_HELD_OUT = 200
_LARGEST_FIXED = 1000
WEIGHTS, ANSWERS = "weights", "answers"
# The score of a label that a model never saw.
_ABSENT = -30.0


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """Calls the user's function with the arguments that it takes; can be pickled.

    Attributes:
      contract: the function, and what it takes.
      table: the table that examples are rows of; None: they are images.
      queries: (queries, height, width, channels); the trained model's predictions for
        them are kept beside its weights; None: none are kept.
      noise: the value of the function's keyword `noise_multiplier`; None: its default.
      position: index of the target in the training set; None: it is the last.
      classes: number of classes of the data; None: those that a model has seen.
    """

    contract: Contract
    table: Table | None = None
    queries: np.ndarray | None = None
    noise: float | None = None
    position: int | None = None
    classes: int | None = None

    def inputs(self, images: Any) -> Any:
        """Return examples as the function takes them: images, or rows of a table."""
        numpy = jnp if isinstance(images, jax.Array) else np
        return images if self.table is None else self.table.features(images, numpy)

    def train(self, images: Any, labels: Any, key: Any) -> Any:
        """Call the function, and return what it returns.

        Args:
          key: a JAX key, or an int.
        """
        if self.position is not None:
            order = np.insert(
                np.arange(len(images) - 1), self.position, len(images) - 1
            )
            images, labels = images[order], labels[order]
        arguments = [self.inputs(images), labels]
        is_int = isinstance(key, int | np.integer)
        if self.contract.takes == "key":  # JAX code may index arrays by traced values
            arguments = [jnp.asarray(array) for array in arguments]
            arguments.append(jax.random.key(int(key)) if is_int else key)
        elif self.contract.takes == "seed" and is_int:
            arguments.append(int(key))
        elif self.contract.takes == "seed":
            seed = jax.random.bits(key, dtype=jnp.uint32) >> 1
            arguments.append(seed.astype(jnp.int32))
        named = {} if self.noise is None else {NOISE: self.noise}
        return self.contract.train(*arguments, **named)

    def answers(self, result: Any, images: Any) -> Any:
        """Return a model's scores (examples, classes), by `predict` or its own method.

        Raises: FieldError: there is neither.
        """
        inputs = self.inputs(images)
        if isinstance(inputs, np.ndarray):  # predict may change its argument in place
            inputs = inputs.copy()
        if self.contract.predict is not None:
            return self.contract.predict(result, inputs)
        flat = np.asarray(inputs).reshape(len(inputs), -1)
        for name in ("predict_proba", "decision_function"):
            if hasattr(result, name):
                scores = np.asarray(getattr(result, name)(flat))
                if scores.ndim == 1:  # two classes
                    scores = np.stack([-scores, scores], axis=1)
                absent = 0.0 if name == "predict_proba" else _ABSENT
                return by_label(scores, result, self.classes, absent)
        raise checks.FieldError(
            "predict",
            "A model of this kind can't be asked without {}(released, images) ->"
            " scores. Write one beside train.",
        )


def by_label(
    scores: np.ndarray, estimator: Any, classes: int | None, absent: float
) -> np.ndarray:
    """Return scores with a column for every label, even those absent from training.

    Args:
      scores: (examples, columns).
      estimator: the model; its `classes_`, if any, are the labels of the columns.
      classes: number of labels; None: the number of columns.
      absent: the score of labels that the estimator never saw.
    """
    names = np.asarray(getattr(estimator, "classes_", ()))
    known = names.shape == scores.shape[1:] and np.issubdtype(names.dtype, np.integer)
    if not known or classes is None or names.min() < 0 or names.max() >= classes:
        return scores
    all_scores = np.full((len(scores), classes), absent)
    all_scores[:, names] = scores
    return all_scores


def run(call: Call, images: Any, labels: Any, key: Any) -> Any:
    """Train; return a {name: array} per array of weights, and of the answers if any."""
    result = call.train(images, labels, key)
    arrays: list[dict[str, Any]] = [
        {f"{WEIGHTS}/{part.name}": part.array} for part in released.parts(result)
    ]
    if call.queries is not None:
        traced = isinstance(images, jax.Array)
        queries = jnp.asarray(call.queries) if traced else call.queries
        arrays.append({ANSWERS: call.answers(result, queries)})
    return tuple(arrays)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class WithoutDerivatives(JaxFunction):
    """A JAX function that can be batched, but has no useful derivatives."""

    @property
    def capabilities(self) -> Capabilities:
        """Batched like any JAX function, but not differentiable."""
        return dataclasses.replace(super().capabilities, differentiable=False)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """A training function with its data, split as the module's docstring says.

    Attributes:
      contract: the training function.
      split: D_-, public records and targets.
      held_out: public records for accuracy and queries.
      table: the table that all records are rows of; None: they are images.
      seed: root of the split and of all other randomness.
      engine: "jax" (batched and differentiated), "runs" (batched), or "processes".
      deterministic: whether equal arguments give equal weights.
      answering: whether trained models give predictions.
      unasked: why predictions aren't used although the model has a method for them; "":
        they are used, or there is no method.
      position: index of the target in the training set; None: it is the last.
    """

    contract: Contract
    split: data.Split
    held_out: Examples
    table: Table | None
    seed: int
    engine: str = "processes"
    deterministic: bool = True
    answering: bool = False
    unasked: str = ""
    position: int | None = None

    @property
    def fixed(self) -> Examples:
        """The fixed set D_-, which the adversary knows."""
        return self.split.fixed

    @property
    def key(self) -> Any:
        """The key that all randomness is drawn from."""
        return jax.random.key(self.seed)

    def call(self, *, answers: bool = False, noise: float | None = None) -> Call:
        """Return the function as the algorithm calls it, without running it."""
        asked = answers and self.answering
        return Call(
            self.contract,
            self.table,
            queries=self.held_out.images if asked else None,
            noise=noise,
            position=self.position,
            classes=self.fixed.num_classes,
        )

    def training_set(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return images and labels of D_-, then the i-th target (`Call` moves it)."""
        target = self.split.test.take(np.arange(i, i + 1))
        images = np.concatenate([self.fixed.images, target.images])
        return images, np.append(self.fixed.labels, target.labels).astype(np.int32)

    def algorithm(
        self, *, answers: bool = False, secret: bool = False, noise: float | None = None
    ) -> Algorithm:
        """Return the function as an algorithm A.

        Args:
          answers: whether theta ends with the predictions for the queries.
          secret: whether the key is secret; then each model has its own.
          noise: noise multiplier, if the function takes one.
        """
        train = functools.partial(run, self.call(answers=answers, noise=noise))
        settings: dict[str, Any] = {
            "train": train,
            "key_is_public": not secret,
            "version": self.contract.version,
        }
        algorithm: Any
        if self.engine == "jax":
            algorithm = JaxFunction(**settings)
        elif self.engine == "runs":
            algorithm = WithoutDerivatives(**settings)
        else:
            algorithm = PythonFunction(deterministic=self.deterministic, **settings)
        return algorithm

    def factory(self, role: str, **settings: Any) -> Factory:
        """Return the factory for models of a role; settings as for `algorithm`."""
        return Factory(
            algorithm=self.algorithm(**settings),
            fixed=self.fixed,
            key=jax.random.fold_in(self.key, 1),
            role=role,
        )

    def layout(self) -> tuple[Slice, ...]:
        """Return the layout of weights, and of predictions if models give them."""
        return self.algorithm(answers=True).layout(self.fixed)

    def only(self, what: str) -> Layers:
        """Return the view of theta that shows weights, or answers, alone."""
        layout = self.layout()
        columns = [
            np.arange(part.start, part.stop)
            for part in layout
            if f"{part.name.partition('/')[2]}/".startswith(f"{what}/")
        ]
        if len(columns) == len(layout):
            return Layers()
        return Layers(columns=np.concatenate(columns), params=layout[-1].stop)

    def accuracy(self, thetas: np.ndarray) -> float | None:
        """Return the accuracy on public records; None: models give no predictions."""
        if not self.answering:
            return None
        answers = np.asarray(self.only(ANSWERS)(thetas))
        shape = (len(answers), len(self.held_out), -1)
        named = answers.reshape(shape).argmax(axis=-1)
        return float(np.mean(named == self.held_out.labels))


def prepare(
    contract: Contract,
    examples: Examples,
    *,
    targets: int,
    fixed: int | None = None,
    table: Table | None = None,
    seed: int = 0,
) -> Subject:
    """Return the function with the data, split into D_-, targets and public records.

    Args:
      contract: the training function.
      examples: all the data.
      targets: largest number of targets.
      fixed: size of D_-; None: half of the data, at most 1,000.
      table: the table that the examples are rows of; None: they are images.
      seed: root of the random split.
    Raises: ValueError: too few examples.
    """
    checks.at_least("targets", targets, 1)
    distinct = len(np.unique(examples.images.reshape(len(examples), -1), axis=0))
    if fixed is None:
        fixed = min(_LARGEST_FIXED, distinct // 2)
    rest, least = distinct - fixed - targets, max(5, 2 * examples.num_classes)
    if fixed < 1 or rest < least:
        raise ValueError(
            f"Expected enough different examples for the fixed set ({fixed}), {targets}"
            f" targets and at least {least} public ones; there are"
            f" {distinct}. Set --fixed or --targets lower."
        )
    kept = max(1, min(_HELD_OUT, rest // 4))
    split = data.split(
        examples, num_fixed=fixed, num_shadow=rest, num_test=targets, seed=seed
    )
    public = np.arange(len(split.shadow))
    shown, held_out = public[: rest - kept], public[rest - kept :]
    return Subject(
        contract=contract,
        split=dataclasses.replace(
            split,
            shadow=split.shadow.take(shown),
            shadow_indices=split.shadow_indices[shown],
        ),
        held_out=split.shadow.take(held_out),
        table=table,
        seed=seed,
    )
