"""CIFAR-10: how the victim was trained, Table IX, and privately, Figure 15."""

import itertools

import numpy as np

import dp
from benchmarks.papers.balle import difficulty
from benchmarks.papers.balle.common import curves, line, number
from benchmarks.papers.lab import Lab, Run
from benchmarks.papers.row import Found, Picture, measures
from informed.experiment import stored
from shadow import sources, victims

_EPSILONS = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
_DELTA, _EPOCHS = 1e-5, 20
_PRIVATE = (
    "data.num_fixed=100",
    "data.num_test=100",
    "shadow.count=400",
    f"training.epochs={_EPOCHS}",
    "training.privacy.clip_norm=10.0",
    "attacks.reconn.targets=0",
)


def _seen(lab: Lab, run: Run) -> dict[str, float]:
    """Accuracy on images that no part of a run has, and membership's AUC by losses.

    Both are means over some released models.
    """
    store = run.released
    victim = stored.victim_of(run.experiment, store)
    pool = sources.load(run.experiment.data.name, data_dir=lab.data_dir)
    used = [store.array(f"{part}_indices") for part in ("fixed", "test")]
    rest = np.setdiff1d(np.arange(len(pool)), np.concatenate(used))
    others = pool.take(np.random.default_rng(0).choice(rest, 1000, replace=False))
    thetas = run.truth.weights[:16]
    accuracies = [
        victims.accuracy(victim, victim.unflatten(theta), others.images, others.labels)
        for theta in thetas
    ]
    inside, outside = (
        difficulty.target_losses(victim, thetas, points)
        for points in (stored.fixed(store), others)
    )
    aucs = map(difficulty.auc, inside, outside)
    return {
        "test accuracy": float(np.mean(accuracies)),
        "membership AUC": float(np.mean(list(aucs))),
    }


@measures("balle/table-9")
def table_9(lab: Lab) -> Found:
    """Error, accuracy and membership by fixed set, optimiser and epochs."""
    runs = lab.sweep("table_9", "evaluation.lpips=false", kl=False)
    seen = [_seen(lab, run) for run in runs]
    kernel = {run.name: run.of("kernel") for run in runs}
    # Longer training of the same victim, in pairs of neighbouring rows.
    longer = [
        (a, b)
        for a, b in itertools.pairwise(kernel)
        if a.rsplit(",", 1)[0] == b.rsplit(",", 1)[0]
    ]
    harder = sum(kernel[b] > kernel[a] for a, b in longer)
    quiet = [
        run.name
        for run, of in zip(runs, seen, strict=True)
        if of["membership AUC"] < 0.6 and run.of("kernel") < run.oracle
    ]
    return Found(
        holds=bool(quiet) and harder >= 0.75 * len(longer),
        verdict=f"More epochs are harder in {harder} of {len(longer)} pairs. In"
        f" {len(quiet)} of {len(runs)} rows the kernel is below the oracle where a loss"
        " threshold tells membership with an AUC below 0.6.",
        theirs="more epochs are harder; reconstruction succeeds at an AUC of 0.51",
        ours=f"harder in {harder} of {len(longer)} pairs; {len(quiet)} rows with an AUC"
        " below 0.6 are reconstructed",
        lines=[line(run, more=of) for run, of in zip(runs, seen, strict=True)],
    )


@measures("balle/figure-15")
def figure_15(lab: Lab) -> Found:
    """Private training with clipping norm 10."""
    sigmas = {"no noise": 0.0}
    for epsilon in _EPSILONS:
        sigmas[f"epsilon {epsilon:g}"] = dp.calibrate(
            epsilon=epsilon, delta=_DELTA, steps=_EPOCHS, relation="zero_out"
        ).noise_multiplier
    runs = [
        lab.run(
            name,
            "cifar10.py:cpu",
            *_PRIVATE,
            f"training.privacy.noise_multiplier={sigma!r}",
            metrics=False,
        )
        for name, sigma in sigmas.items()
    ]
    plain, noisy = runs[0], runs[1:]
    accuracy = [_seen(lab, run)["test accuracy"] for run in runs]
    drawn = curves(
        list(_EPSILONS),
        {"kernel": [run.of("kernel") for run in noisy]},
        xlabel="epsilon, delta 1e-5",
        oracle=plain.oracle,
    )
    defeated = [
        (epsilon, of / accuracy[0])
        for epsilon, run, of in zip(_EPSILONS, noisy, accuracy[1:], strict=True)
        if run.of("kernel") > run.oracle
    ]
    largest, kept = defeated[-1] if defeated else (0.0, 0.0)
    return Found(
        holds=plain.of("kernel") < plain.oracle and largest >= 10 and kept > 0.9,
        verdict=f"Without noise the kernel has {number(plain.of('kernel'))}, oracle"
        f" {number(plain.oracle)}; it stays above the oracle up to epsilon"
        f" {largest:g}, where test accuracy is {kept:.0%} of that without noise"
        f" ({accuracy[0]:.1%}).",
        theirs="a large epsilon mitigates reconstruction and preserves accuracy",
        ours=f"kernel regression above the oracle up to epsilon {largest:g}; accuracy"
        f" {kept * accuracy[0]:.0%} with that noise, {accuracy[0]:.0%} without",
        lines=[
            line(run, more={"test accuracy": of})
            for run, of in zip(runs, accuracy, strict=True)
        ],
        pictures=[Picture(drawn, "Error of the kernel regression against epsilon.")],
    )
