"""Figure 13: A starts near convergence, from a model of 10,000 other points."""

import dataclasses

import jax
import matplotlib.figure
import numpy as np

from benchmarks.papers.balle.common import CALLED, attacked, number, unused
from benchmarks.papers.balle.factors import default
from benchmarks.papers.lab import Lab, Run
from benchmarks.papers.row import Found, Line, Picture, measures
from informed import metrics, report
from informed.attacks.inversion import Inversion, InversionConfig
from informed.experiment import stored
from shadow import victims
from shadow.factory import Factory
from shadow.models import ShadowModels
from shadow.threat import publish

_BEFORE, _INVERTED = 10_000, 3


def _near_convergence(lab: Lab, run: Run) -> np.ndarray:
    """Theta after A on 10,000 points that no part of the run has."""
    pool, rest = unused(lab, run)
    before = pool.take(np.random.default_rng(0).permutation(rest)[:_BEFORE])
    cold = stored.factory_of(run.experiment, run.shadows, role="shadow")
    developer = dataclasses.replace(cold, fixed=before.take(slice(0, -1)))
    theta = developer.train(before.take(slice(-1, None)))[0]
    return np.asarray(theta, np.float32)


@measures("balle/figure-13")
def figure_13(lab: Lab) -> Found:
    """Shadow and released models from the usual theta_0, and from that of a model."""
    run = default(lab)
    truth = run.truth
    shadows = stored.targets(run.shadows)
    targets = stored.targets_of(run.released, truth)

    def factory(role: str, start: np.ndarray) -> Factory:
        made = stored.factory_of(run.experiment, run.shadows, role=role)
        return dataclasses.replace(made, start=start)

    def make() -> dict[str, np.ndarray]:
        start = _near_convergence(lab, run)
        models = ShadowModels.of(factory("shadow", start).train(shadows), shadows)
        released = factory("released", start).train(targets)
        folder = lab.work / "kept" / "figure-13"
        found = attacked(lab, run, models, released, folder)
        developer = factory("released", start)
        guess = Inversion(config=InversionConfig(), progress=lab.progress)(
            publish(released[:_INVERTED]),
            developer.knowledge(public=shadows),
            key=jax.random.key(0),
        )
        assert guess.certified is not None
        accuracy = [
            victims.accuracy(
                developer.descent.victim,
                developer.descent.victim.unflatten(theta),
                truth.images,
                truth.labels,
            )
            for theta in (start, released[0])
        ]
        return found | {
            "inversion": metrics.mse(truth.images[:_INVERTED], guess.images),
            "certified": guess.certified,
            "accuracy": np.array(accuracy),
        }

    found = lab.kept("figure-13", [_BEFORE, _INVERTED, run.experiment.values], make)
    warm = {name: float(found[name].mean()) for name in ("reconn", "kernel")}
    figure = matplotlib.figure.Figure(figsize=(8.0, 3.2), dpi=120)
    for axis, attack in zip(figure.subplots(1, 2), warm, strict=True):
        edges = np.linspace(0, 0.12, 60)
        axis.hist(run.errors(attack), edges, alpha=0.6, label="from theta_0")
        axis.hist(found[attack], edges, alpha=0.6, label="near convergence")
        axis.axvline(run.oracle, color="0.4", ls="--", label="NN oracle")
        axis.set_xlabel(f"MSE per pixel, {CALLED[attack]}")
        axis.set_ylabel("targets")
        axis.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    before, after = found["accuracy"]
    certified = int(found["certified"].sum())
    return Found(
        holds=all(warm[attack] > run.of(attack) for attack in warm),
        verdict=f"From a model with a test accuracy of {before:.1%} the network has"
        f" {number(warm['reconn'])} instead of {number(run.of('reconn'))}, the kernel"
        f" {number(warm['kernel'])} instead of {number(run.of('kernel'))}; inversion"
        f" certifies {certified} of {_INVERTED} as exact.",
        theirs="reconstruction is harder near convergence",
        ours=f"network {number(warm['reconn'])}, kernel {number(warm['kernel'])};"
        f" inversion {certified} of {_INVERTED} certified",
        lines=[
            Line(
                name="from theta_0",
                ours={f"{CALLED[a]} MSE": run.of(a) for a in warm}
                | {"NN oracle": run.oracle},
            ),
            Line(
                name="near convergence",
                ours={f"{CALLED[a]} MSE": value for a, value in warm.items()}
                | {
                    "NN oracle": run.oracle,
                    "inversion, median MSE": float(np.median(found["inversion"])),
                    "certified exact": f"{certified} of {_INVERTED}",
                    "test accuracy before and after": f"{before:.3f}, {after:.3f}",
                },
            ),
        ],
        pictures=[Picture(report.png(figure), "Errors of 1,000 targets.")],
    )
