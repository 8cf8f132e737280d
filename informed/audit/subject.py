"""The subject of an audit: training function and data, and both as an algorithm A.

The data are split into four: D_-, which the adversary knows; targets, which the
adversary doesn't know; public records, on which the adversary trains shadow models; and
more public records for accuracy and for queries. Every model is trained on D_- and one
target.
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

# Public records for accuracy and queries, at most.
_HELD_OUT = 200
_LARGEST_FIXED = 1000
WEIGHTS, ANSWERS = "weights", "answers"
# The score of a label that a model never saw.
_ABSENT = -30.0


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """A training function as the algorithm calls it; can be sent to other processes.

    Attributes:
      contract: the function, and what it takes.
      table: the table whose rows the examples are; None: they are pictures.
      queries: (queries, height, width, channels); the trained model's predictions for
        them are kept beside its weights; None: none are kept.
      noise: the value of the function's keyword `noise_multiplier`; None: its default.
      position: where in the training set the target is; None: it is the last.
      classes: of the data; None: those that a model knows.
    """

    contract: Contract
    table: Table | None = None
    queries: np.ndarray | None = None
    noise: float | None = None
    position: int | None = None
    classes: int | None = None

    def inputs(self, images: Any) -> Any:
        """Return examples as the function sees them: images, or rows of a table."""
        numpy = jnp if isinstance(images, jax.Array) else np
        return images if self.table is None else self.table.features(images, numpy)

    def train(self, images: Any, labels: Any, key: Any) -> Any:
        """Call the function, and return what it returns.

        Args:
          key: a key of JAX's, or an int.
        """
        if self.position is not None:
            order = np.insert(
                np.arange(len(images) - 1), self.position, len(images) - 1
            )
            images, labels = images[order], labels[order]
        arguments = [self.inputs(images), labels]
        is_int = isinstance(key, int | np.integer)
        if self.contract.takes == "key":  # whoever takes a key of JAX's indexes by it
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
        """Return the scores (examples, classes) of a model, by `predict` or its own.

        Raises: FieldError: there is no way to ask it.
        """
        inputs = self.inputs(images)
        if isinstance(inputs, np.ndarray):  # a function may change them in place
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
    """Give scores a column for every label, also where an estimator saw some only.

    Args:
      scores: (examples, columns).
      classes: how many there are; None: as many as there are columns.
      absent: the score of labels that it never saw.
    """
    names = np.asarray(getattr(estimator, "classes_", ()))
    known = names.shape == scores.shape[1:] and np.issubdtype(names.dtype, np.integer)
    if not known or classes is None or names.min() < 0 or names.max() >= classes:
        return scores
    all_scores = np.full((len(scores), classes), absent)
    all_scores[:, names] = scores
    return all_scores


def run(call: Call, images: Any, labels: Any, key: Any) -> Any:
    """Train, and return weights as {name: array}, one each, and answers last."""
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
        """Batched, as any function of JAX, and not differentiable."""
        return dataclasses.replace(super().capabilities, differentiable=False)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """A training function with its data, split as the module's docstring says.

    Attributes:
      contract: the training function.
      split: D_-, public records and targets.
      held_out: public records for accuracy and queries.
      table: the table whose rows all records are; None: they are pictures.
      seed: root of the split and of all other randomness.
      engine: "jax" (batched and differentiated), "runs" (batched), or "processes".
      deterministic: whether equal arguments give equal weights.
      answering: whether trained models give predictions.
      unasked: why not, although they have a method for it; "": they have none.
      position: where in the training set the target is; None: it is the last.
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

    @property
    def known_to_all(self) -> Examples:
        """D_- and all public records."""
        return self.fixed.joined(self.split.shadow, self.held_out)

    def call(self, *, answers: bool = False, noise: float | None = None) -> Call:
        """Return the function as the algorithm calls it."""
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
        """Return images and labels of D_- and the i-th target, which is last here."""
        target = self.split.test.take(np.arange(i, i + 1))
        images = np.concatenate([self.fixed.images, target.images])
        return images, np.append(self.fixed.labels, target.labels).astype(np.int32)

    def algorithm(
        self, *, answers: bool = False, secret: bool = False, noise: float | None = None
    ) -> Algorithm:
        """Return the function as an algorithm A.

        Args:
          answers: whether theta also has the predictions for the queries, at its end.
          secret: whether the key is secret; then each model has its own.
          noise: noise multiplier, if the function takes one.
        """
        train = functools.partial(run, self.call(answers=answers, noise=noise))
        settings: dict[str, Any] = {
            "train": train,
            "key_is_public": not secret,
            "version": self.contract.version,
        }
        algorithm: Any  # an Algorithm; mypy can't see that of `quiet`
        if self.engine == "jax":
            algorithm = JaxFunction(**settings)
        elif self.engine == "runs":
            algorithm = WithoutDerivatives(**settings)
        else:
            algorithm = PythonFunction(deterministic=self.deterministic, **settings)
        return algorithm

    def factory(self, role: str, **settings: Any) -> Factory:
        """Return what trains models of a role; settings as for `algorithm`."""
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
        """Return the accuracy on public records; None: models can't be asked."""
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
    """Cut the data into D_-, targets and public records.

    Args:
      contract: the training function.
      examples: all the data.
      targets: how many, at most.
      fixed: size of D_-; None: half of the data, at most 1,000.
      table: the table whose rows the examples are; None: they are pictures.
      seed: root of the draw of the parts.
    Raises: ValueError: too few examples.
    """
    checks.at_least("targets", targets, 1)
    distinct = len(np.unique(examples.images.reshape(len(examples), -1), axis=0))
    if fixed is None:
        fixed = min(_LARGEST_FIXED, distinct // 2)
    rest = distinct - fixed - targets
    if fixed < 1 or rest < 2 * examples.num_classes:
        raise ValueError(
            f"Expected enough different examples for the fixed set ({fixed}), {targets}"
            f" targets and at least {2 * examples.num_classes} public ones; there are"
            f" {distinct}. Set --fixed or --targets lower."
        )
    kept = min(_HELD_OUT, rest // 4)
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
