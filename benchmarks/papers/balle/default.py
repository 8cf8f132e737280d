"""MNIST at its default settings: Figures 3 to 5, 8, 11 and 21."""

from collections.abc import Sequence

import matplotlib.figure
import numpy as np
from scipy import stats
from sklearn.neighbors import NearestNeighbors

from benchmarks.papers.balle import difficulty
from benchmarks.papers.balle.common import (
    CALLED,
    ORACLES,
    below_from,
    both,
    curves,
    falls,
    grid,
    line,
    number,
    since,
)
from benchmarks.papers.balle.factors import DEFAULT, default
from benchmarks.papers.lab import Lab, Run
from benchmarks.papers.row import Found, Line, Picture, measures
from informed import metrics, report
from informed.experiment import stored
from shadow import data, sources
from shadow.models import ShadowModels


@measures("balle/figure-5c")
def figure_5c(lab: Lab) -> Found:
    """Error against the number of shadow models; Figure 5d: KL."""
    return by_count(lab.sweep("attack_size"))


def by_count(runs: Sequence[Run]) -> Found:
    """Figure 5c of runs with ever more shadow models."""
    counts, network, kernel = _by_models(runs, "mse")
    drawn = curves(
        counts,
        {"network": network, "kernel": kernel},
        xlabel="shadow models",
        oracle=runs[0].oracle,
        theirs=([8000, 59_000], [ORACLES["mnist"], 0.0089]),
    )
    below, with_kernel = (
        below_from(counts, each, runs[0].oracle) for each in (network, kernel)
    )
    return Found(
        holds=falls(network) and below is not None and below <= 8000,
        verdict=f"The error {'falls' if falls(network) else 'does not fall'} with every"
        f" doubling; the network is below the oracle {since(below)} (the paper: 8,000),"
        f" the kernel {since(with_kernel)}.",
        theirs="below the oracle with 8,000",
        ours=f"below the oracle with {below} (network), {with_kernel} (kernel)",
        lines=[line(run) for run in runs],
        pictures=[
            Picture(
                drawn,
                "Error against shadow models (the paper's points: the"
                " oracle at 8,000, Table II at 59,000).",
            )
        ],
    )


def _by_models(
    runs: Sequence[Run], metric: str
) -> tuple[list[int], list[float], list[float]]:
    """Numbers of shadow models, and the metric of network and kernel."""
    counts = [run.experiment.attacks["kernel"].settings.models for run in runs]
    network, kernel = (
        [run.of(attack, metric) for run in runs] for attack in ("reconn", "kernel")
    )
    return counts, network, kernel


@measures("balle/figure-5d")
def figure_5d(lab: Lab) -> Found:
    """KL against the number of shadow models."""
    runs = lab.sweep("attack_size")
    counts, network, kernel = _by_models(runs, "kl")
    lines = {"network": network, "kernel": kernel}
    drawn = curves(counts, lines, xlabel="shadow models", ylabel="KL, nats")
    falling = falls(network)
    accuracy = runs[0].results["classifier_accuracy"]
    right = f"accuracy {accuracy:.1%} on held-out images"
    return Found(
        holds=falling,
        verdict="KL falls monotonically with the number of shadow models"
        if falling
        else "KL doesn't fall at every step.",
        theirs="a monotonic decrease",
        ours=f"network {network[0]:.2f} to {network[-1]:.3f} nats",
        lines=[
            Line(name=f"k={k}", ours={"network KL": a, "kernel KL": b})
            for k, a, b in zip(counts, network, kernel, strict=True)
        ],
        pictures=[Picture(drawn, f"KL of a classifier's answers, {right}.")],
    )


@measures("balle/figure-4")
def figure_4(lab: Lab) -> Found:
    """Reconstructions at the oracle's error and at the first percentile's."""
    good = default(lab)
    weak = [
        lab.run(
            f"{k} shadow models",
            "mnist.py:cpu",
            *DEFAULT,
            f"attacks.reconn.models={k}",
            f"attacks.kernel.models={k}",
            "attacks.reconn.epochs=200",
            "attacks.reconn.shrink=false",
            "attacks.kernel.shrink=false",
            metrics=False,
        )
        for k in (100, 500, 1000, 2000)
    ]
    truth = good.truth.images
    percentile = good.results["distance_percentiles"]["1"]
    candidates = np.concatenate(
        [run.guesses(a)[None] for run in weak for a in ("reconn", "kernel")]
    )
    errors = np.mean((candidates - truth[None]) ** 2, axis=(2, 3, 4))
    shown = np.arange(6)

    def nearest(level: float) -> tuple[np.ndarray, np.ndarray]:
        which = np.abs(errors[:, shown] - level).argmin(axis=0)
        return candidates[which, shown], errors[which, shown]

    at_oracle, at_oracle_error = nearest(good.oracle)
    at_first, at_first_error = nearest(percentile)
    rows = {
        "target": truth[shown],
        "kernel": good.guesses("kernel")[shown],
        "network": good.guesses("reconn")[shown],
        "at the oracle's": at_oracle,
        "at 1st percentile": at_first,
    }
    below = {
        "kernel": good.errors("kernel")[shown],
        "network": good.errors("reconn")[shown],
        "at the oracle's": at_oracle_error,
        "at 1st percentile": at_first_error,
    }
    share = float((good.errors("kernel") < good.oracle).mean())
    return Found(
        holds=good.of("kernel") < good.oracle,
        verdict=f"{share:.1%} of the kernel's reconstructions are below the oracle's"
        f" mean error of {number(good.oracle)}; the first percentile is"
        f" {number(percentile)}.",
        theirs="good overall quality; pictures",
        ours=f"{both(good)}; pictures",
        lines=[line(good)],
        pictures=[
            Picture(
                grid(rows, below),
                "The first six targets (not chosen), MSE"
                " below each; rows four and five are of weaker attackers, with 100 to"
                " 2,000 shadow models, of the error nearest to the oracle's and to"
                " the first percentile.",
            )
        ],
    )


@measures("balle/figure-3")
def figure_3(lab: Lab) -> Found:
    """Distances between targets and all that the adversary has, at the paper's size."""
    pool = sources.load("mnist", data_dir=lab.data_dir)
    split = data.split(pool, num_fixed=10_000, num_shadow=59_000, num_test=1000, seed=0)
    known = np.concatenate([split.fixed.images, split.shadow.images])

    def make() -> dict[str, np.ndarray]:
        found = metrics.nearest_neighbours(split.test.images, known)
        names = ("mse", "percentiles", "histogram", "edges")
        return {name: getattr(found, name) for name in names}

    found = lab.kept("figure-3", ["mnist", 10_000, 59_000, 1000, 0], make)
    oracle, levels = found["mse"].mean(), found["percentiles"].mean(axis=0)
    figure = matplotlib.figure.Figure(figsize=(6.0, 3.4), dpi=120)
    axis = figure.subplots()
    axis.stairs(found["histogram"], found["edges"], fill=True, alpha=0.5)
    for name, value in zip(
        ("NN oracle", "1 %", "10 %", "50 %"), (oracle, *levels), strict=True
    ):
        axis.axvline(value, lw=1, color="k")
        axis.text(
            value, axis.get_ylim()[1], f" {name}", fontsize=7, rotation=90, va="top"
        )
    axis.set_xlabel("MSE per pixel between a target and an image of the adversary's")
    axis.set_ylabel("share of images")
    figure.tight_layout()
    return Found(
        holds=bool(abs(oracle - ORACLES["mnist"]) < 0.002),
        verdict=f"The nearest of 69,000 images is at {number(oracle)} on average; the"
        f" 1st, 10th and 50th percentiles are {', '.join(map(number, levels))}.",
        theirs="oracle 0.0232",
        ours=f"oracle {number(oracle)}",
        lines=[
            Line(
                name="MNIST",
                theirs={"NN oracle": ORACLES["mnist"]},
                ours={"NN oracle": float(oracle)}
                | {
                    f"{p}th percentile": float(v)
                    for p, v in zip((1, 10, 50), levels, strict=True)
                },
            )
        ],
        pictures=[
            Picture(report.png(figure), "All 69,000 images, mean over 1,000 targets.")
        ],
    )


def _three(run: Run) -> dict[str, dict[str, np.ndarray]]:
    """MSE, LPIPS and KL of each target, by attack."""
    return {CALLED[attack]: run.judged(attack) for attack in ("kernel", "reconn")}


def _scatter(found: dict[str, dict[str, np.ndarray]], other: str, label: str) -> bytes:
    figure = matplotlib.figure.Figure(figsize=(8.0, 3.4), dpi=120)
    for axis, (name, each) in zip(figure.subplots(1, 2), found.items(), strict=True):
        axis.loglog(each["mse"], np.maximum(each[other], 1e-7), ".", ms=3)
        axis.set_xlabel("MSE per pixel")
        axis.set_ylabel(label)
        axis.set_title(name, fontsize=10)
    figure.tight_layout()
    return report.png(figure)


@measures("balle/figure-5a")
def figure_5a(lab: Lab) -> Found:
    """MSE against LPIPS."""
    return mse_and_lpips(default(lab))


def mse_and_lpips(run: Run) -> Found:
    """Figure 5a of a run."""
    found = _three(run)
    rho = {
        name: float(stats.spearmanr(each["mse"], each["lpips"]).statistic)
        for name, each in found.items()
    }
    strongly = min(rho.values()) > 0.5
    return Found(
        holds=strongly,
        verdict=f"MSE and LPIPS are {'' if strongly else 'not '}strongly correlated"
        f" over targets: Spearman {rho['network']:.2f} (network),"
        f" {rho['kernel']:.2f} (kernel).",
        theirs="strongly correlated",
        ours=f"Spearman {rho['network']:.2f} (network), {rho['kernel']:.2f} (kernel)",
        lines=[
            Line(name=name, ours={"Spearman": value}) for name, value in rho.items()
        ],
        pictures=[Picture(_scatter(found, "lpips", "LPIPS"), "One point a target.")],
    )


@measures("balle/figure-5b")
def figure_5b(lab: Lab) -> Found:
    """MSE against KL."""
    return mse_and_kl(default(lab))


def mse_and_kl(run: Run) -> Found:
    """Figure 5b of a run."""
    found, lines, ok, shares = _three(run), [], [], []
    for name, each in found.items():
        order = np.argsort(each["mse"])
        quarter = len(order) // 4
        near, far = (
            each["kl"][order[:quarter]].mean(),
            each["kl"][order[-quarter:]].mean(),
        )
        alike = each["kl"] < np.median(each["kl"])
        converse = float((each["mse"][alike] > np.median(each["mse"])).mean())
        shares.append(converse)
        ok.append(near < far / 5 and converse > 0.2)
        lines.append(
            Line(
                name=name,
                ours={
                    "mean KL, quarter of least MSE": float(near),
                    "mean KL, quarter of largest MSE": float(far),
                    "large MSE among the half of small KL": converse,
                },
            )
        )
    return Found(
        holds=all(ok),
        verdict="Targets of small MSE have a small KL; of the half with small KL"
        f" {shares[0]:.0%} (kernel) and {shares[1]:.0%} (network) have a large MSE, so"
        " the converse doesn't hold."
        if all(ok)
        else "By the rule the claim doesn't hold for both attacks: see the table.",
        theirs="small MSE implies small KL, not the converse",
        ours="the same" if all(ok) else "not so for both attacks",
        lines=lines,
        pictures=[Picture(_scatter(found, "kl", "KL, nats"), "One point a target.")],
    )


@measures("balle/figure-8")
def figure_8(lab: Lab) -> Found:
    """t-SNE of released weights, and how labels group in it."""
    runs = lab.sweep("subsampling", only=lambda name: name.endswith("512"))
    figure = matplotlib.figure.Figure(figsize=(12.0, 3.2), dpi=110)
    lines, shares = [], {}
    for axis, run in zip(figure.subplots(1, 4), runs, strict=True):
        truth = run.truth

        def make(truth: ShadowModels = truth) -> dict[str, np.ndarray]:
            return {"places": difficulty.embedding(truth.weights, seed=0)}

        places = lab.kept("figure-8", [run.name, run.experiment.values], make)["places"]
        near = NearestNeighbors(n_neighbors=11).fit(places).kneighbors(places)[1][:, 1:]
        share = float((truth.labels[near] == truth.labels[:, None]).mean())
        shares[run.name] = share
        lines.append(Line(name=run.name, ours={"neighbours of the same label": share}))
        axis.scatter(*places.T, c=truth.labels, cmap="tab10", s=4)
        axis.set_title(f"{run.name}: {share:.0%}", fontsize=9)
        axis.set_xticks([])
        axis.set_yticks([])
    figure.tight_layout()
    chance = 0.1
    hard = shares["unknown, 0.2, 512"]
    return Found(
        holds=hard
        < 0.5 * min(v for n, v in shares.items() if n != "unknown, 0.2, 512"),
        verdict="Share of ten neighbours in the plane that have the target's label: "
        + ", ".join(f"{name}: {value:.0%}" for name, value in shares.items())
        + f" (chance {chance:.0%}).",
        theirs="labels group, except with an unknown order at rate 0.2",
        ours=", ".join(f"{value:.0%}" for value in shares.values()),
        lines=lines,
        pictures=[
            Picture(
                report.png(figure),
                "Order, rate and batch; coloured by the target's label, with the share"
                " of ten neighbours that have the same.",
            )
        ],
    )


@measures("balle/figure-21")
def figure_21(lab: Lab) -> Found:
    """Gradient norms of targets, summed over all epochs, against their errors."""
    return gradient_norms(lab, default(lab))


def gradient_norms(lab: Lab, run: Run) -> Found:
    """Figure 21 of a run."""
    truth = run.truth
    targets = stored.targets_of(run.released, truth)
    factory = stored.factory_of(run.experiment, run.released, role="released")

    def make() -> dict[str, np.ndarray]:
        return {"norms": difficulty.gradients(factory, targets).norms}

    key = [run.experiment.model_configuration, len(targets)]
    norms = lab.kept("figure-21", key, make)["norms"].sum(axis=1)
    figure = matplotlib.figure.Figure(figsize=(8.0, 3.4), dpi=120)
    rho = {}
    for axis, attack in zip(figure.subplots(1, 2), ("reconn", "kernel"), strict=True):
        errors, name = run.errors(attack), CALLED[attack]
        rho[name] = float(stats.spearmanr(norms, errors).statistic)
        axis.loglog(norms, errors, ".", ms=3)
        axis.set_xlabel("gradient norm, sum over 100 epochs")
        axis.set_ylabel("MSE per pixel")
        axis.set_title(f"{name}, Spearman {rho[name]:.2f}", fontsize=10)
    figure.tight_layout()
    weak = all(0 < value < 0.7 for value in rho.values())
    return Found(
        holds=weak,
        verdict="Targets of larger gradient are"
        f" {'somewhat harder' if weak else 'not weakly related to error'}: Spearman"
        f" {rho['network']:.2f} (network), {rho['kernel']:.2f} (kernel).",
        theirs="weakly correlated, not inversely",
        ours=f"Spearman {rho['network']:.2f} (network), {rho['kernel']:.2f} (kernel)",
        lines=[Line(name=n, ours={"Spearman": value}) for n, value in rho.items()],
        pictures=[Picture(report.png(figure), "One point a target.")],
    )
