"""`informed diagnose`: the paper's diagnostics of a finished run, in pictures.

<workdir>/diagnostics.json
<workdir>/diagnostics/embedding.png     Figure 8: t-SNE of the released weights
<workdir>/diagnostics/easy_and_hard.png Figure 14: best and worst reconstructions
<workdir>/diagnostics/gradients.png     Figures 21, 22: norms and zeros of gradients
<workdir>/diagnostics/losses.png        Figure 11: losses with and without the target
<workdir>/diagnostics/metrics.png       Figures 5a/b, 19: how the metrics agree, where
                                        LPIPS or KL are asked for
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import matplotlib.figure
import matplotlib.ticker
import numpy as np
from scipy import stats

from informed import metrics, report
from informed.metrics import difficulty
from informed.metrics.difficulty import Gradients, WithAndWithout
from informed.runs import evaluation, stored
from informed.runs.experiment import Experiment
from informed.runs.stages import Paths, Stage
from shadow import checks, files
from shadow.data import Examples
from shadow.factory import Factory

# Targets that are drawn, of the easiest and of the hardest each.
_EXTREMES = 6
# Models with and without a target, each, for the distributions of losses and the AUC.
_MODELS = 100
_INITIALISATIONS = ("shared", "random")


def run(experiment: Experiment, paths: Paths, *, progress: bool = True) -> dict:
    """Diagnose a run whose attack is finished.

    Args:
      experiment, paths: the run's configuration, and where it lies.
      progress: say what is being done.
    Returns: the contents of diagnostics.json.
    Raises: NotMadeError: nothing was attacked yet; ConfigurationMismatchError,
      VersionMismatchError: models or attacks were made otherwise.
    """
    shadows, released = stored.stores(experiment, paths)
    name = attacked(experiment)
    record = stored.attack_record(experiment, name, shadows, released)
    Stage.require(paths.workdir, f"attack-{name}", record)
    truth = released.read()
    guesses = stored.guesses(paths.workdir, name)["images"]
    factory = stored.factory_of(experiment, shadows, role="released")
    targets = stored.targets_of(released, truth)
    errors = metrics.mse(truth.images, guesses)
    folder = paths.workdir / "diagnostics"

    def say(what: str) -> None:
        if progress:
            print(f"{what} ...", flush=True)

    say("t-SNE")
    places = difficulty.embedding(truth.weights, seed=experiment.seed)
    files.write_bytes(folder / "embedding.png", _embedding(places, truth.labels))
    files.write_bytes(
        folder / "easy_and_hard.png",
        _extremes(truth.images, guesses, errors, name),
    )
    say("gradients through training")
    some = targets.take(np.arange(min(len(targets), _MODELS)))
    slopes = difficulty.gradients(factory, some)
    files.write_bytes(folder / "gradients.png", _gradients(slopes, errors[: len(some)]))
    say("losses with and without a target")
    compared = [_with_and_without(factory, kind, targets) for kind in _INITIALISATIONS]
    files.write_bytes(folder / "losses.png", _losses(compared))
    say("metrics")
    judge = evaluation.classifier_of(experiment, paths, released, progress=progress)
    others = evaluation.other_metrics(experiment, judge, truth.images, guesses)
    judged = {"MSE": errors} | {metric.upper(): each for metric, each in others.items()}
    if len(judged) > 1:
        files.write_bytes(folder / "metrics.png", _agreement(judged))
    else:  # nothing to compare the MSE with
        (folder / "metrics.png").unlink(missing_ok=True)
    auc = None
    if len(targets) > 1:
        auc = difficulty.membership_auc(
            factory.descent.victim,
            truth.weights[:_MODELS],
            factory.fixed,
            targets,
            own=True,
        )
    results = {
        "membership_auc": None if auc is None else float(auc.mean()),
        "gradient_norm_spearman": _spearman(
            slopes.norms.sum(axis=1), errors[: len(some)]
        ),
        "zero_gradients": {
            layer: float(row.mean())
            for layer, row in zip(slopes.layers, slopes.zeros, strict=True)
        },
        "loss_auc": {each.initialisation: each.auc for each in compared},
        "spearman": {
            f"MSE, {metric}": _spearman(errors, values)
            for metric, values in judged.items()
            if metric != "MSE"
        },
        "easiest": np.argsort(errors)[:_EXTREMES].tolist(),
        "hardest": np.argsort(-errors)[:_EXTREMES].tolist(),
        "pictures": str(folder),
    }
    files.write_json(paths.workdir / "diagnostics.json", results)
    return results


def attacked(experiment: Experiment) -> str:
    """The name of the attack that is diagnosed: "reconn", else the first one.

    Raises: FieldError: no attack is played on all targets.
    """
    count = experiment.data.num_test
    whole = [n for n, one in experiment.played.items() if one.targets in (None, count)]
    if whole:
        return "reconn" if "reconn" in whole else whole[0]
    raise checks.FieldError(
        "config.attacks", "Expected one of {} to attack all targets, to be diagnosed."
    )


def table(results: Mapping[str, Any]) -> str:
    """The results as text, for people."""
    zeros = results["zero_gradients"].items()
    lines = [
        f"membership AUC by loss            {_told(results['membership_auc'], 3)}",
        "gradient norm and MSE, Spearman  "
        f" {_told(results['gradient_norm_spearman'], 2)}",
        *(f"zero gradients, {layer:<18}{share:.2f}" for layer, share in zeros),
        *(
            f"loss tells the target, {kind:<11}AUC {auc:.3f}"
            for kind, auc in results["loss_auc"].items()
        ),
        *(
            f"{pair}, Spearman {_told(value, 2)}"
            for pair, value in results["spearman"].items()
        ),
        f"pictures                          {results['pictures']}",
    ]
    return "\n".join(lines)


def _with_and_without(
    factory: Factory, initialisation: str, targets: Examples
) -> WithAndWithout:
    """Losses of the first target, with the others in turn."""
    changed = factory.descent.changed(initialisation=initialisation)
    return difficulty.losses(
        dataclasses.replace(factory, algorithm=changed),
        targets.take(np.arange(1)),
        targets.take(np.arange(1, min(len(targets), 1 + _MODELS))),
    )


def _told(value: float | None, digits: int) -> str:
    return "cannot be told" if value is None else f"{value:.{digits}f}"


def _spearman(one: np.ndarray, other: np.ndarray) -> float | None:
    """Rank correlation; None where one of them is constant, as where all is exact."""
    if not np.ptp(one) or not np.ptp(other):
        return None
    return float(stats.spearmanr(one, other).statistic)


def _embedding(places: np.ndarray, labels: np.ndarray) -> bytes:
    figure = matplotlib.figure.Figure(figsize=(5.6, 4.6), dpi=120)
    axis = figure.subplots()
    dots = axis.scatter(
        places[:, 0], places[:, 1], c=labels, cmap="tab10", s=9, vmin=-0.5, vmax=9.5
    )
    figure.colorbar(dots, ax=axis, label="label of the target", ticks=range(10))
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_title("Released weights, t-SNE", fontsize=10)
    figure.tight_layout()
    return report.png(figure)


def _extremes(
    targets: np.ndarray, guesses: np.ndarray, errors: np.ndarray, attack: str
) -> bytes:
    count = min(_EXTREMES, len(errors) // 2)
    order = np.argsort(errors)
    chosen = np.concatenate([order[:count], order[-count:]])
    figure = matplotlib.figure.Figure(figsize=(1.0 * 2 * count + 0.9, 2.9), dpi=120)
    axes = figure.subplots(2, 2 * count, squeeze=False)
    for column, i in enumerate(chosen):
        for axis, image in zip(axes[:, column], (targets[i], guesses[i]), strict=True):
            report.show(axis, image)
            axis.set_xticks([])
            axis.set_yticks([])
        axes[1, column].set_xlabel(f"{errors[i]:.4f}", fontsize=8)
    axes[0, 0].set_ylabel("target")
    axes[1, 0].set_ylabel(attack.replace("_", "\n"))
    axes[0, 0].set_title("smallest errors", fontsize=9, loc="left")
    axes[0, count].set_title("largest errors", fontsize=9, loc="left")
    figure.tight_layout()
    return report.png(figure)


def _gradients(slopes: Gradients, errors: np.ndarray) -> bytes:
    figure = matplotlib.figure.Figure(figsize=(9.0, 3.6), dpi=120)
    left, right = figure.subplots(1, 2)
    left.loglog(slopes.norms.sum(axis=1), errors, ".")
    _few_ticks(left)
    left.set_xlabel(
        f"gradient norm of the target, sum over {slopes.norms.shape[1]} epochs"
    )
    left.set_ylabel("MSE of its reconstruction")
    for layer, row in zip(slopes.layers, slopes.zeros, strict=True):
        right.plot(np.arange(1, len(row) + 1), row, label=layer)
    right.set_ylim(-0.03, 1.03)
    right.set_xlabel("epoch")
    right.set_ylabel("share of gradients that are zero")
    right.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    return report.png(figure)


def _few_ticks(axis: Any) -> None:
    """At most four labelled ticks a side, plain numbers, none over another."""
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_locator(matplotlib.ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        low, high = side.get_view_interval()
        within = [t for t in side.get_major_locator()() if low <= t <= high]
        if len(within) < 2:
            within = list(np.geomspace(low, high, 5)[1:-1])
        shown = within[:: -(-len(within) // 4)]
        side.set_major_locator(matplotlib.ticker.FixedLocator(shown))
        side.set_major_formatter(matplotlib.ticker.StrMethodFormatter("{x:.2g}"))
        side.set_minor_locator(matplotlib.ticker.NullLocator())


def _losses(compared: list[WithAndWithout]) -> bytes:
    figure = matplotlib.figure.Figure(figsize=(9.0, 3.2), dpi=120)
    for axis, each in zip(figure.subplots(1, len(compared)), compared, strict=True):
        both = np.concatenate([each.seen, each.unseen])
        smallest = max(both.min(), 1e-6)
        edges = np.geomspace(smallest, max(both.max(), 2 * smallest), 40)
        for values, name in ((each.seen, "trained on it"), (each.unseen, "not")):
            axis.hist(np.maximum(values, smallest), edges, alpha=0.6, label=name)
        axis.set_xscale("log")
        axis.set_xlabel("loss of the target, nats")
        axis.set_ylabel("models")
        axis.set_title(
            f"{each.initialisation} initialisation, AUC {each.auc:.2f}", fontsize=10
        )
        axis.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    return report.png(figure)


def _agreement(judged: Mapping[str, np.ndarray]) -> bytes:
    others = list(judged)[1:]
    figure = matplotlib.figure.Figure(figsize=(4.2 * len(others), 3.6), dpi=120)
    for axis, name in zip(
        figure.subplots(1, len(others), squeeze=False)[0], others, strict=True
    ):
        axis.loglog(judged["MSE"], np.maximum(judged[name], 1e-12), ".", ms=4)
        _few_ticks(axis)
        axis.set_xlabel("MSE")
        axis.set_ylabel(name)
        rho = _spearman(judged["MSE"], judged[name])
        axis.set_title(f"Spearman {_told(rho, 2)}")
    figure.tight_layout()
    return report.png(figure)
