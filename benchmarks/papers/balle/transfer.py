"""Figure 12: a reconstructor for one fixed set, fine-tuned for another."""

import dataclasses
from typing import Any

import jax
import numpy as np

import reconn
from benchmarks.papers.balle.common import number, unused
from benchmarks.papers.balle.factors import default
from benchmarks.papers.lab import Lab, Run
from benchmarks.papers.row import Found, Line, measures
from informed import metrics
from informed.experiment import stored
from reconn import features
from shadow import files
from shadow.models import ShadowModels
from shadow.threat import Knowledge, publish

_FEW = 600  # a tenth of the shadow models of the first fixed set
# For few models: about as many steps as the first network had in its last ten epochs of
# 6,000, at the middle of its schedule. Chosen before anything was measured.
_TUNING = {"epochs": 100, "learning_rate": 3e-4}


def _another(lab: Lab, first: Run) -> Run:
    """A run on images that no part of the first one has, from the same theta_0."""
    pool, indices = unused(lab, first)
    rest = pool.take(indices)
    file = lab.work / "kept" / "mnist-without-the-default-run.npz"
    if not file.exists():
        files.write_arrays(file, images=rest.images, labels=rest.labels)
    return lab.run(
        "another fixed set",
        "mnist.py:cpu",
        f"data.name={file}",
        "shadow.count=6000",
        "attacks.reconn.epochs=40",
        metrics=False,
    )


@measures("balle/figure-12")
def figure_12(lab: Lab) -> Found:
    """From scratch, fine-tuned with a tenth of the models, and without any."""
    first = default(lab)
    second = _another(lab, first)
    config = first.experiment.attacks["reconn"].settings
    network = config.method()
    key = second.experiment.attack_key("reconn")
    view = stored.view_of(first.experiment, first.shadows)
    few = _first(second.shadows.read(), _FEW)
    truth = second.truth
    folder = lab.work / "kept" / "figure-12"
    of_first = reconn.load(first.paths.workdir / "attacks" / "reconn")
    short = dataclasses.replace(config, **_TUNING).method()

    def train(name: str, method: Any, **named: Any) -> reconn.Reconstructor:
        return reconn.train(
            few,
            method,
            key=key,
            workdir=folder / name,
            view=view,
            progress=lab.progress,
            **named,
        )

    def make() -> dict[str, np.ndarray]:
        release = publish(truth.weights, view)
        tuned = train("tuned", short, start=of_first)
        own = features.fit(
            few, view, num_models=_FEW, clip=network.clip, standardise=True
        ).seeing(of_first.standardiser)
        kernel = dataclasses.replace(config, kind="kernel").method()
        scratch = train("scratch", dataclasses.replace(network, epochs=200))
        knowledge = Knowledge()
        guesses = {
            "network, from scratch": scratch(release, knowledge).images,
            "network, fine-tuned": tuned(release, knowledge).images,
            "network, zero shot": of_first(release, knowledge).images,
            "network, zero shot, standardised anew": of_first.model(
                own(release.values)
            ),
            "kernel, from scratch": train("kernel", kernel)(release, knowledge).images,
            "kernel, both fixed sets": _pooled(
                first, few, truth.weights, kernel, key=key, folder=folder / "pooled"
            ),
        }
        return {name: metrics.mse(truth.images, g) for name, g in guesses.items()}

    errors = lab.kept("figure-12", [_FEW, _TUNING, second.experiment.values], make)
    mean = {name: float(each.mean()) for name, each in errors.items()}
    whole = {"network": second.of("reconn"), "kernel": second.of("kernel")}
    tuned = mean["network, fine-tuned"]
    zero = min(v for n, v in mean.items() if "zero" in n)
    return Found(
        holds=tuned < mean["network, from scratch"] and tuned < 1.5 * whole["network"],
        verdict=f"With {_FEW} shadow models of the new fixed set the fine-tuned network"
        f" has {number(tuned)}, from scratch {number(mean['network, from scratch'])},"
        f" with all 6,000 {number(whole['network'])}; without any {number(zero)}. The"
        f" kernel from scratch has {number(mean['kernel, from scratch'])} with {_FEW},"
        f" {number(mean['kernel, both fixed sets'])} together with those of the other"
        f" set. Oracle {number(second.oracle)}.",
        theirs="few models are comparable to many; zero shot works on MNIST",
        ours=f"fine-tuned {number(tuned)}, scratch"
        f" {number(mean['network, from scratch'])} with {_FEW};"
        f" {number(whole['network'])} with 6,000",
        lines=[
            *(
                Line(
                    name=f"{name}, {'no' if 'zero' in name else _FEW} models",
                    ours={"MSE": value},
                )
                for name, value in mean.items()
            ),
            *(
                Line(name=f"{name}, from scratch, 6000 models", ours={"MSE": value})
                for name, value in whole.items()
            ),
            Line(name="NN oracle", ours={"MSE": second.oracle}),
        ],
    )


def _first(models: ShadowModels, count: int) -> ShadowModels:
    return ShadowModels(
        weights=models.weights[:count],
        images=models.images[:count],
        labels=models.labels[:count],
    )


def _pooled(
    first: Run,
    few: ShadowModels,
    weights: np.ndarray,
    kernel: reconn.Kernel,
    *,
    key: jax.Array,
    folder: Any,
) -> np.ndarray:
    """Kernel regression on the models of both fixed sets, each standardised by itself.

    The last of the new models validate.
    """
    view = stored.view_of(first.experiment, first.shadows)
    parts, standardisers = [first.shadows.read(), few], []
    for models in parts:
        standardisers.append(
            features.fit(
                models, view, num_models=len(models), clip=kernel.clip, standardise=True
            )
        )
    standardisers[1] = standardisers[1].seeing(standardisers[0])
    both = ShadowModels(
        weights=np.concatenate(
            [s(m.weights) for s, m in zip(standardisers, parts, strict=True)]
        ),
        images=np.concatenate([models.images for models in parts]),
        labels=np.concatenate([models.labels for models in parts]),
    )
    method = dataclasses.replace(
        kernel, standardise=False, validation_fraction=0.2 * len(few) / len(both)
    )
    attack = reconn.train(both, method, key=key, workdir=folder, progress=False)
    return attack(publish(standardisers[1](weights)), Knowledge()).images
