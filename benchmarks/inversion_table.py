"""Training inversion against everything that might stop it, one JSON line per row.

    python -m benchmarks.inversion_table --dataset=digits --targets=20 --reconn

Each row changes one thing of the default: Table V and a fixed set of 300, on MNIST
1,000, on CIFAR-10 the CNN, 50 and 10 epochs; labels not told unless said. Rows are
appended to --out; those that are there already are skipped, so an interrupted run goes
on. `--only=releases` or `--only=relu` picks groups or rows. With --reconn a RecoNN
and a kernel regression attack the same models, from --shadow shadow models.
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment

import informed
import reconn
import shadow
from benchmarks import resumed, tensor_float
from benchmarks.developers import developer
from benchmarks.trainings import RECIPES, Recipe, train_by
from shadow import devices

FIXED = {"digits": 300, "mnist": 1000, "cifar10": 50}
DEFAULTS: dict[str, dict[str, Any]] = {
    "cifar10": {"architecture": "cnn", "learning_rate": 0.01, "epochs": 10}
}
SLOW = {"learning_rate": 0.05}
TRAININGS: dict[str, dict[str, Any]] = {
    "default": {},
    "learning_rate=0.01": {"learning_rate": 0.01},
    "learning_rate=0.5": {"learning_rate": 0.5},
    "momentum=0": {"momentum": 0.0},
    "epochs=250": {"epochs": 250},
    "epochs=1000": {"epochs": 1000},
    "activation=relu": {"activation": "relu"},
    "activation=tanh": {"activation": "tanh"},
    "activation=sigmoid": {"activation": "sigmoid"},
    "width=100": {"widths": (100,)},
    "widths=10,10": {"widths": (10, 10)},
    "weight_decay=0.001": {"weight_decay": 0.001},
    "adam, learning_rate=0.003, relu": {
        "optimiser": "adam",
        "learning_rate": 0.003,
        "activation": "relu",
    },
    "adam, learning_rate=0.001": {"optimiser": "adam", "learning_rate": 0.001},
    "batch=64, order known": {"batch_size": 64},
    "batch=64, order known, learning_rate=0.05": {"batch_size": 64, **SLOW},
    "batch=half, order unknown, learning_rate=0.05, momentum=0": {
        "batch_size": -2,
        "shuffling": "unknown",
        "momentum": 0.0,
        **SLOW,
    },
    "initialisation unknown": {"initialisation": "random"},
}
FORMATS = ("float16", "bfloat16", "int8")
MISSING, NOISY = (1, 5), (5,)
SEVERAL = (2, 5, 10)


def main() -> None:
    """Measure row after row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="digits", choices=sorted(FIXED))
    parser.add_argument("--targets", type=int, default=20)
    parser.add_argument("--shadow", type=int, default=1300)
    parser.add_argument("--reconn", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    devices.one_a_core()
    out = arguments.out or Path(f"runs/inversion_{arguments.dataset}.jsonl")
    fields = vars(arguments)
    settings = {n: fields[n] for n in sorted(fields) if n not in ("out", "only")}
    done = {line["row"] for line in resumed.lines(out, settings)}
    bench = Bench(arguments)
    for name, measure in bench.rows():
        if name in done or arguments.only not in name:
            continue
        start = time.perf_counter()
        row = {"row": name, **measure()}
        row["wall_s"] = round(time.perf_counter() - start, 1)
        resumed.append(out, row)
        print(json.dumps(row), flush=True)


class Bench:
    """Data, and one method a group of rows."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        pool = shadow.load(arguments.dataset)
        self.split = shadow.split(
            pool,
            num_fixed=FIXED[arguments.dataset],
            num_shadow=arguments.shadow,
            num_test=arguments.targets,
            seed=arguments.seed,
        )

    def rows(self) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
        """(name, measurement) of every row."""
        for name, fields in TRAININGS.items():
            yield f"training: {name}", lambda fields=fields: self.training(fields)
        for name, recipe in RECIPES.items():
            yield f"own: {name}", lambda recipe=recipe: self.own(recipe)
        for form in FORMATS:
            yield f"releases: {form}", lambda form=form: self.release(form)
        yield "releases: summed in another order", lambda: self.release("reordered")
        yield "releases: trained in TF32", self.tensor_float
        for count in MISSING:
            yield f"fixed set: {count} missing", lambda count=count: self.fixed(count)
        for count in NOISY:
            yield (
                f"fixed set: {count} with noise of 0.1",
                lambda count=count: self.fixed(count, noise=0.1),
            )
        for count in SEVERAL:
            yield f"unknown points: {count}", lambda count=count: self.several(count)

    def factory(self, fields: dict[str, Any], fixed: Any = None) -> shadow.Factory:
        """The developer's factory with some fields changed."""
        fields = DEFAULTS.get(self.arguments.dataset, {}) | fields
        fixed = fixed or self.split.fixed
        shape = {
            name: fields.pop(name)
            for name in ("activation", "architecture", "widths")
            if name in fields
        }
        # A negative batch size is a fraction of all points, rounded up.
        if fields.get("batch_size", 1) < 0:
            fields["batch_size"] = -(-(len(fixed) + 1) // -fields["batch_size"])
        return developer(fixed, victim=shape, **fields)

    def training(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Another training algorithm; labels told where A is random."""
        factory, targets = self.factory(fields), self.split.test
        release = shadow.publish(factory.train(targets))
        knowledge = factory.knowledge(public=self.split.shadow)
        if knowledge.initialisation is None or knowledge.training_key is None:
            knowledge = dataclasses.replace(knowledge, labels=targets.labels)
        row = self.attack(release, knowledge)
        if self.arguments.reconn:
            row |= self.learned(factory, release)
        return row

    def own(self, recipe: Recipe) -> dict[str, Any]:
        """Training as users write it (`trainings`), on a fixed set of 100."""
        factory = shadow.Factory(
            algorithm=shadow.JaxFunction(train=train_by(recipe)),
            fixed=self.split.fixed.take(slice(0, 100)),
            key=jax.random.key(0),
            role="released",
        )
        knowledge = factory.knowledge(public=self.split.shadow)
        return self.attack(shadow.publish(factory.train(self.split.test)), knowledge)

    def release(self, form: str) -> dict[str, Any]:
        """Weights in fewer bits, or rounded differently in training."""
        factory = self.factory({})
        knowledge = factory.knowledge(public=self.split.shadow)
        if form == "reordered":
            order = np.random.default_rng(0).permutation(len(self.split.fixed))
            other = self.factory({}, self.split.fixed.take(order))
            weights = other.train(self.split.test)
            return self.attack(shadow.publish(weights), knowledge)
        weights = factory.train(self.split.test)
        view = shadow.Layers.of(factory.descent.victim.layout, precision=form)
        return self.attack(shadow.publish(weights, view), knowledge)

    def tensor_float(self) -> dict[str, Any]:
        """A developer with other arithmetic. One shadow target tells how far off it is.

        The adversary, whose own arithmetic is full float32, can emulate TF32 once.
        """
        factory, test = self.factory({}), self.split.test
        knowledge = factory.knowledge(public=self.split.shadow)
        other = tensor_float.victim(test.image_shape, test.num_classes)
        assert knowledge.initialisation is not None
        init = other.unflatten(jnp.asarray(knowledge.initialisation))
        train = dataclasses.replace(factory.descent, victim=other).train
        fixed = (self.split.fixed.images, self.split.fixed.labels)

        def theta(target: Any) -> Any:
            return other.flatten(train(init, fixed, target, jax.random.key(0)))

        thetas = jax.jit(jax.vmap(theta))
        weights = np.asarray(thetas((test.images, test.labels)))
        own = self.split.shadow.take(slice(0, 1))
        off = factory.train(own) - np.asarray(thetas((own.images, own.labels)))
        deviations = np.empty(off.shape)
        for part in factory.descent.victim.layout:
            columns = slice(part.start, part.stop)
            deviations[:, columns] = np.sqrt(np.mean(off[:, columns] ** 2))
        deviations = np.tile(deviations, (len(test), 1))
        return self.attack(
            shadow.Release(values=weights, deviations=deviations), knowledge
        )

    def fixed(self, count: int, noise: float = 0.0) -> dict[str, Any]:
        """A fixed set of which the adversary knows some points wrongly, or not."""
        factory, fixed = self.factory({}), self.split.fixed
        knowledge = factory.knowledge(public=self.split.shadow)
        if noise:
            images = fixed.images.copy()
            rng = np.random.default_rng(0)
            images[:count] += noise * rng.standard_normal(images[:count].shape)
            known = dataclasses.replace(fixed, images=np.clip(images, 0, 1))
        else:
            known = fixed.take(slice(count, None))
        release = shadow.publish(factory.train(self.split.test))
        return self.attack(release, dataclasses.replace(knowledge, fixed=known))

    def several(self, count: int) -> dict[str, Any]:
        """Several unknown points at once, their labels told."""
        factory, test = self.factory({}), self.split.test
        games = min(5, len(test) // count)
        weights, labels = [], []
        for game in range(games):
            points = test.take(slice(game * count, (game + 1) * count))
            larger = self.split.fixed.joined(points.take(slice(0, -1)))
            weights.append(self.factory({}, larger).train(points.take(slice(-1, None))))
            labels.append(points.labels)
        knowledge = factory.knowledge(public=self.split.shadow)
        start = time.perf_counter()
        each_game = informed.Inversion().several(
            shadow.publish(np.concatenate(weights)),
            knowledge,
            np.stack(labels),
            key=jax.random.key(1),
        )
        found = list(each_game)
        seconds = (time.perf_counter() - start) / games
        errors = np.concatenate(
            [
                matched(test.images[game * count :][:count], each.images)
                for game, each in enumerate(found)
            ]
        )
        certified = np.concatenate([each.certified for each in found])
        return summary(errors, certified, seconds) | {"releases": games}

    def attack(
        self, release: shadow.Release, told: informed.Knowledge
    ) -> dict[str, Any]:
        """Invert, and compare with the truth."""
        test = self.split.test
        start = time.perf_counter()
        found = informed.Inversion()(release, told, key=jax.random.key(1))
        seconds = (time.perf_counter() - start) / len(test)
        assert found.certified is not None
        errors = informed.mse(test.images, found.images)
        row = summary(errors, found.certified, seconds)
        row["expected_mse"] = two_digits(np.median(np.asarray(found.expected_mse)))
        if told.labels is None:
            row["labels_right"] = float(np.mean(found.labels == test.labels))
        return row

    def learned(
        self, factory: shadow.Factory, release: shadow.Release
    ) -> dict[str, float]:
        """Mean MSE of a RecoNN (settings of configs/digits.py) and of the kernel."""
        shadows = dataclasses.replace(factory, role="shadow")
        models = shadow.ShadowModels.of(
            shadows.train(self.split.shadow), self.split.shadow
        )
        found = {}
        for method in (reconn.Network(batch_size=32, epochs=60), reconn.Kernel()):
            attack = reconn.train(models, method, key=jax.random.key(2), progress=False)
            guess = attack(release, informed.Knowledge())
            error = informed.mse(self.split.test.images, guess.images).mean()
            found[f"{method.kind}_mse"] = two_digits(error)
        return found


def summary(
    errors: np.ndarray, certified: np.ndarray, seconds: float
) -> dict[str, Any]:
    """Quality and certificate; exact: an MSE of at most 1e-6."""
    exact = errors <= 1e-6
    return {
        "targets": len(errors),
        "median_mse": two_digits(np.median(errors)),
        "mean_mse": two_digits(errors.mean()),
        "exact": float(exact.mean()),
        "certified": float(certified.mean()),
        "certified_exact": float(exact[certified].mean()) if certified.any() else None,
        "seconds_per_release": round(seconds, 1),
    }


def matched(targets: np.ndarray, guesses: np.ndarray) -> np.ndarray:
    """MSE of several points in the order that makes it least."""
    costs = np.stack(
        [informed.mse(targets, np.repeat(g[None], len(targets), 0)) for g in guesses],
        axis=1,
    )
    rows, columns = linear_sum_assignment(costs)
    return costs[rows, columns]


def two_digits(value: Any) -> float:
    """Two digits."""
    return float(f"{value:.2g}")


if __name__ == "__main__":
    main()
