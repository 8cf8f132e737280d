"""How fast differences grow in training, and whether the training can be inverted.

    python -m benchmarks.chaos --targets=4 --out=runs/chaos.jsonl

Digits and their negatives (bright images), fixed set 100, 100 epochs, full batches and
batches of 25 and 10 in known order, learning rates from stable to chaotic. Before
anything is attacked, the adversary measures on public images of the target's label

- `growth` and `exponent` of `informed.audit.instability`: how much further the typical
  weight moves on a hundredth of the way to another image than it is worth; the
  finite-time Lyapunov exponent over the whole training;
- `exponent_of_theta`: ln(|difference of theta after all epochs| / |after the first|) of
  images that differ by 1e-4 a pixel, over the whole training: the same for the norm of
  theta, in which the wildest weights count;
- `bend`: second over first differences of theta at a tenth of a standard deviation.

Then the target is inverted, its label told; exact: an MSE of at most 1e-6. One JSON
line at the end: how well each of the four predicts, by AUC, which targets aren't exact.
Each run is kept as soon as it is done.
"""

import argparse
import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from sklearn.metrics import roc_auc_score

import informed
import shadow
from benchmarks import resumed
from benchmarks.developers import developer
from informed.attacks.inversion.background import Background
from informed.audit import instability
from shadow import devices

RATES = (0.05, 0.1, 0.2, 0.4)
BATCHES = (None, 25, 10)
SHADES = ("digits", "negatives")
EPOCHS = 100
PAIRS = 24
SMALL = 1e-4  # a pixel, of the differences
PREDICTORS = ("growth", "exponent", "exponent_of_theta", "bend")
# Shorter than the default: a run that is not inverted by then seldom is.
CONFIG = informed.InversionConfig(starts=2, neighbours=150, clouds=30)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=4, help="a setting")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="a file of JSON lines")
    arguments = parser.parse_args()
    devices.one_a_core()
    settings = {"seed": arguments.seed, "targets": arguments.targets}
    done = resumed.lines(arguments.out, settings)
    there = {(line["setting"], line["target"]) for line in done}
    for shade, batch, rate in itertools.product(SHADES, BATCHES, RATES):
        name = f"{shade}, batch {batch or 'full'}, learning rate {rate}"
        left = [i for i in range(arguments.targets) if (name, i) not in there]
        for line in _measured(arguments, shade, batch, rate, left):
            line = {"setting": name, **line}
            done.append(line)
            resumed.append(arguments.out, line)
            print(json.dumps(line), flush=True)
    print(json.dumps(summary(done)))


def summary(done: list[dict[str, Any]]) -> dict[str, Any]:
    """The last line."""
    failed = [not line["exact"] for line in done]
    both = len(set(failed)) == 2
    aucs = {
        f"auc_of_{name}": (
            round(float(roc_auc_score(failed, [line[name] for line in done])), 3)
            if both
            else None
        )
        for name in PREDICTORS
    }
    return {"runs": len(done), "exact": len(done) - sum(failed), **aucs}


def _measured(
    arguments: argparse.Namespace,
    shade: str,
    batch: int | None,
    rate: float,
    left: list[int],
) -> Iterator[dict[str, Any]]:
    """A line for each of these targets of one setting."""
    if not left:
        return
    pool = shadow.load("digits")
    if shade == "negatives":
        pool = dataclasses.replace(pool, images=1 - pool.images)
    split = shadow.split(
        pool,
        num_fixed=100,
        num_shadow=1500,
        num_test=arguments.targets,
        seed=arguments.seed,
    )
    factory, first = (
        developer(
            split.fixed,
            seed=arguments.seed,
            learning_rate=rate,
            batch_size=batch,
            epochs=epochs,
        )
        for epochs in (EPOCHS, 1)
    )
    weights = factory.train(split.test)
    knowledge = factory.knowledge(public=split.shadow)
    background = Background(CONFIG, knowledge, jax.random.key(2))
    for i in left:
        label = split.test.labels[i : i + 1]
        public = split.shadow.take(np.flatnonzero(split.shadow.labels == label[0]))
        stable = instability.measure(_runs(factory), public, PAIRS)
        assert stable is not None
        found = informed.Inversion(config=CONFIG)(
            shadow.publish(weights[i : i + 1]),
            dataclasses.replace(knowledge, labels=label),
            key=jax.random.key(1),
        )
        error = float(informed.mse(split.test.images[i : i + 1], found.images)[0])
        yield {
            "target": i,
            "growth": stable.growth,
            "exponent": stable.exponent,
            "exponent_of_theta": _exponent_of_theta(factory, first, public),
            "bend": background.curvature,
            "mse": error,
            "exact": error <= CONFIG.exact_mse,
            "certified": bool(np.asarray(found.certified)[0]),
            "trainings": int(np.asarray(found.trainings)[0]),
        }


def _runs(factory: shadow.Factory) -> Callable:
    """Of images and labels with an axis of unknown points."""

    def runs(images: np.ndarray, labels: np.ndarray, _: np.ndarray) -> np.ndarray:
        return factory.train(
            shadow.Examples(
                images=images[:, 0].astype(np.float32),
                labels=labels[:, 0].astype(np.int32),
                num_classes=factory.fixed.num_classes,
            )
        )

    return runs


def _exponent_of_theta(
    factory: shadow.Factory, first: shadow.Factory, public: shadow.Examples
) -> float:
    """From medians over pairs, at the end and after an epoch."""
    rng = np.random.default_rng(0)
    base = public.take(rng.choice(len(public), PAIRS))
    images = base.images + SMALL * rng.standard_normal(base.images.shape)
    images = np.clip(images, 0, 1)
    near = dataclasses.replace(base, images=images.astype(np.float32))
    last, begun = (
        np.median(np.linalg.norm(made.train(near) - made.train(base), axis=1))
        for made in (factory, first)
    )
    return float(np.log(last / begun))


if __name__ == "__main__":
    main()
