"""Membership of an informed adversary: Algorithm 2 and Figure 11."""

import dataclasses

import jax
import matplotlib.figure
import numpy as np

from benchmarks.papers.balle import difficulty
from benchmarks.papers.balle.factors import default
from benchmarks.papers.lab import Lab, Run
from benchmarks.papers.row import Found, Line, Picture, measures
from informed import metrics, report
from informed.attacks.membership_attacks import RetrainingMembership
from informed.experiment import stored
from informed.games import membership_game
from shadow.data import Examples
from shadow.factory import Factory

_GAMES, _MODELS = 200, 1000
# Further targets of Figure 11, with fewer models each: the first one alone may be a
# hard one, whose loss gives it away whatever theta_0.
_MORE, _FEWER = 9, 200


def _factory(run: Run, initialisation: str) -> Factory:
    """The developer of a run's released models, with another kind of theta_0."""
    made = stored.factory_of(run.experiment, run.released, role="released")
    changed = dataclasses.replace(made.descent, initialisation=initialisation)
    start = made.start if initialisation == "shared" else None
    return dataclasses.replace(made, algorithm=changed, start=start)


@measures("balle/algorithm-2")
def algorithm_2(lab: Lab) -> Found:
    """Train with both candidates, and compare."""
    run = default(lab)
    truth = run.truth
    targets = stored.targets_of(run.released, truth)
    pairs = (
        targets.take(np.arange(_GAMES)),
        targets.take(np.arange(_GAMES, 2 * _GAMES)),
    )
    lines, rates = [], {}
    for kind in ("shared", "random"):
        factory = _factory(run, kind)

        def play(factory: Factory = factory) -> dict[str, np.ndarray]:
            right = membership_game(
                RetrainingMembership(),
                factory,
                pairs,
                factory.knowledge(),
                key=jax.random.key(0),
            )
            return {"right": right}

        right = lab.kept("algorithm-2", [kind, _GAMES, run.experiment.values], play)
        rate = rates[kind] = metrics.success_rate(right["right"])
        lines.append(
            Line(
                name=f"{kind} initialisation",
                ours={
                    "games won": f"{rate.successes} of {rate.trials}",
                    "95 % interval": f"{rate.low:.3f} to {rate.high:.3f}",
                },
            )
        )
    return Found(
        holds=rates["shared"].successes == _GAMES,
        verdict=f"Deterministic training loses {rates['shared'].successes} of {_GAMES}"
        f" games; with an unknown initialisation {rates['random'].successes}.",
        theirs="a trivial strategy wins against deterministic training",
        ours=f"{rates['shared'].successes} of {_GAMES};"
        f" unknown initialisation {rates['random'].successes} of {_GAMES}",
        lines=lines,
    )


@measures("balle/figure-11")
def figure_11(lab: Lab) -> Found:
    """Losses of a target under models with and without it."""
    run = default(lab)
    truth = run.truth
    target = stored.targets_of(run.released, truth).take(slice(0, 1))
    others = stored.targets(run.shadows).take(slice(0, _MODELS))
    lines, aucs = [], {}
    figure = matplotlib.figure.Figure(figsize=(8.6, 3.2), dpi=120)
    for axis, kind in zip(figure.subplots(1, 2), ("shared", "random"), strict=True):
        factory = _factory(run, kind)

        def make(factory: Factory = factory) -> dict[str, np.ndarray]:
            return difficulty.losses(factory, target, others)

        key = [kind, _MODELS, run.experiment.values]
        found = lab.kept("figure-11", key, make)
        aucs[kind] = difficulty.auc(**found)
        lines.append(Line(name=f"{kind} initialisation", ours={"AUC": aucs[kind]}))
        both = np.concatenate([found["seen"], found["unseen"]])
        edges = np.geomspace(max(both.min(), 1e-6), both.max(), 50)
        axis.hist(found["seen"], edges, alpha=0.6, label="trained on it")
        axis.hist(found["unseen"], edges, alpha=0.6, label="not")
        axis.set_xscale("log")
        axis.set_xlabel("loss of the target, nats")
        axis.set_ylabel("models")
        axis.set_title(f"{kind} initialisation, AUC {aucs[kind]:.3f}", fontsize=10)
        axis.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    more = {kind: _of_more(lab, run, kind, others) for kind in aucs}
    for i, (shared, random) in enumerate(zip(*more.values(), strict=True), 1):
        ours = {"AUC, shared": float(shared), "AUC, random": float(random)}
        lines.append(Line(name=f"target {i}, {_FEWER} models", ours=ours))
    below = int((more["random"] < 0.6).sum())
    return Found(
        holds=aucs["shared"] > 0.99 and aucs["random"] < 0.6,
        verdict=f"With a known initialisation losses tell the first target with an AUC"
        f" of {aucs['shared']:.3f}, with an unknown one of {aucs['random']:.3f}. Of"
        f" {_MORE} further targets {below} overlap (AUC below 0.6) where the"
        f" initialisation is unknown; from {more['random'].min():.2f} to"
        f" {more['random'].max():.2f}. It is the target that decides: a hard one's loss"
        " gives it away whatever the initialisation.",
        theirs="perfectly separable; nearly perfect overlap",
        ours=f"AUC {aucs['shared']:.3f}; {aucs['random']:.3f} at the first target,"
        f" median {np.median(more['random']):.2f} at {_MORE} others",
        lines=lines,
        pictures=[
            Picture(
                report.png(figure),
                f"Losses of one target under {_MODELS} models with it and as many"
                " without it.",
            )
        ],
    )


def _of_more(lab: Lab, run: Run, kind: str, others: Examples) -> np.ndarray:
    """AUC at each of the further targets."""
    targets = stored.targets_of(run.released, run.truth)
    factory = _factory(run, kind)
    some = others.take(np.arange(_FEWER))

    def make() -> dict[str, np.ndarray]:
        aucs = []
        for i in range(1, _MORE + 1):
            target = targets.take(slice(i, i + 1))
            aucs.append(difficulty.auc(**difficulty.losses(factory, target, some)))
        return {"aucs": np.array(aucs)}

    key = [kind, _MORE, _FEWER, run.experiment.values]
    return lab.kept("figure-11-more", key, make)["aucs"]
