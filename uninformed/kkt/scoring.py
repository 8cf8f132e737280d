"""Evaluate KKT attacks on a victim: counts, controls, baselines, pictures.

Scores may use the training images, which no adversary has; `together` and `stability`
do not. The judged run is the one that an adversary would choose, by its loss. Beside
its counts stand the same counts for held-out images, two baselines, the victim's
distance from a KKT point, and what its first layer reveals to an adversary who knows
all activation patterns. `informed.cli.run_commands` calls `execute` for `informed kkt`;
it writes results.json and two pictures into the work folder.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import matplotlib.figure
import numpy as np
from jaxtyping import Float

from informed import report
from shadow import checks, files
from uninformed import candidates, homogeneous, kkt, model_inversion
from uninformed import max_margin as margin
from uninformed.homogeneous import DenseLayers, Layer
from uninformed.kkt import KktConfig, KktRun, ceiling, stationarity
from uninformed.kkt.experiment import (
    BASELINES,
    Attacked,
    Uninformed,
    attacked,
    by_loss,
    key_of,
)
from uninformed.kkt.training_images import VictimImages
from uninformed.montage import ImageRow, draw_rows

# File names of the pictures.
RECONSTRUCTIONS, OUTPUTS = "reconstructions.png", "outputs.png"
# Root mean square difference, in pixels of [0, 1], within which `stability` counts two
# candidates as the same. A larger value merges similar images; a smaller one separates
# runs that ended slightly apart.
_SAME = 0.05
# Number of low-loss runs that a run is compared with. More would include runs of other
# minima; with fewer, the share of common candidates is noisy.
_GOOD = 3
# Candidates with at least this fraction of the best score are averaged: Appendix B.3.
_VOTING = 0.9
# NCC above which candidates of several runs count as copies of one point. Chosen among
# 0.5 to 0.9 on 500 images of CIFAR-10 (the first 250 of each class), where it recovers
# most: 16 images from four runs instead of 12.
_COPIES = 0.7
# Most points of extreme output (the model-inversion baseline). A thousand of 3,072
# inputs take seven minutes.
_PROTOTYPES = 200
# Columns of a picture. With more, images are too small to see.
_SHOWN = 20


def execute(
    fields: Mapping[str, Any],
    workdir: Path,
    data_dir: str | None,
    *,
    progress: bool,
    weights: Path | None = None,
) -> tuple[dict[str, Any], str, list[Path]]:
    """Run the experiment `Uninformed` for the command line.

    Returns: results for JSON; the same as lines of text; files of pictures.
    Raises: FieldError: a field of the configuration is wrong.
    """
    experiment = checks.build(Uninformed, fields)
    results = run(experiment, workdir, data_dir, weights=weights, progress=progress)
    return results, table(results), [workdir / RECONSTRUCTIONS, workdir / OUTPUTS]


def table(results: Mapping[str, Any]) -> str:
    """Return results as lines: verdict, counts beside their controls, the rest."""
    controls = {name.replace("held_out_", ""): name for name in results}
    pairs = {name: of for name, of in controls.items() if name != of}
    lines = [results["verdict"], candidates.NO_PROTECTION, ""]
    lines.append(f"{'':<32}{'training images':<24}never trained on")
    lines += [f"{n:<32}{results[n]!s:<24}{results[of]}" for n, of in pairs.items()]
    left = [name for name in results if name not in (*pairs, *pairs.values())]
    lines += [f"{name:<32}{results[name]}" for name in left if name != "verdict"]
    return "\n".join(lines)


def run(
    experiment: Uninformed,
    workdir: Path,
    data_dir: str | None = None,
    *,
    weights: Path | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Train, attack and evaluate; return what `results.json` holds.

    Raises: ConfigurationMismatchError: the folder holds another victim or search.
    """
    outcome = attacked(
        experiment, workdir, data_dir, weights=weights, progress=progress
    )
    results = evaluate(experiment, outcome, workdir) | dict(outcome.seconds)
    files.write_json(workdir / "results.json", results)
    return results


def evaluate(
    experiment: Uninformed, attacked: Attacked, workdir: Path
) -> dict[str, Any]:
    """Return scores of the run that an adversary would choose, as in docs/kkt.md."""
    images, network, trials = attacked.images, attacked.network, attacked.trials
    chosen = attacked.chosen
    lost = sum(map(diverged, trials))
    if diverged(chosen):
        raise checks.FieldError(
            "attack.rate",
            f"Expected {{}} at which a run ends at finite images; {lost} of"
            f" {len(trials)} runs diverged.",
        )
    mean = images.mean if experiment.data.mean_known else None

    def summary(points: np.ndarray, share: float = 1.0) -> dict[str, Any]:
        return matched(images, points, mean, share).summary()

    def recovered(name: str, counts: Mapping[str, Any]) -> dict[str, Any]:
        both = ("recovered", "held_out_recovered")
        return {f"{name}_{count}": counts[count] for count in both}

    matches = matched(images, chosen.points, mean)
    count = min(experiment.attack.candidates, _PROTOTYPES)
    inversion = model_inversion.InversionOfModel(count=count)
    prototypes = model_inversion.invert(
        inversion, network, key=key_of(experiment, BASELINES)
    )
    visible = as_seen(experiment.attack, network)
    residual, layer_residuals = at_truth(experiment, images, visible)
    everything = together(images, trials)
    pooled = summary(everything)
    layer = summary(model_inversion.first_layer(network))
    inverted, voted = summary(prototypes), summary(chosen.points, _VOTING)
    looks = {
        "": matches.summary(),
        "By the first layer's weights alone, ": layer,
        "By model inversion alone, ": inverted,
    }
    if len(trials) > 1:
        looks["By all runs together, "] = pooled
    zero = {"_recovered": 0, "_held_out_recovered": 0}
    of_runs = [
        zero if diverged(run) else recovered("", summary(run.points)) for run in trials
    ]
    by_run = {f"runs{name}": [counts[name] for counts in of_runs] for name in zero}
    results: dict[str, Any] = {
        "verdict": candidates.verdict(looks),
        **_rounded("", matches.summary()),
        **recovered("first_layer", layer),
        **recovered("model_inversion", inverted),
        **by_run,
        **{name.replace("runs", "oracle"): max(of) for name, of in by_run.items()},
        "diverged": lost,
        **recovered("voted", voted),
        **_rounded("pooled_", pooled),
        "candidates": experiment.attack.candidates,
        "pooled_candidates": len(everything),
        "distinct": len(_merged(images, [chosen], 0.95)),
        "residual": round(chosen.residual, 3),
        "residual_at_truth": round(residual, 3),
        "layers_at_truth": [round(float(value), 3) for value in layer_residuals],
        **ceilings(images, visible, mean),
        **fit(experiment, images, network),
    }
    if len(trials) - lost > 1:
        results["stability"] = round(stability(chosen, trials), 3)
    draw_images(images, matches, workdir / RECONSTRUCTIONS)
    _draw_outputs(network, images, matches, workdir / OUTPUTS)
    return results


def _rounded(of: str, counts: Mapping[str, int | float]) -> dict[str, int | float]:
    """Return counts under names that begin with `of`, shares in three digits."""
    return {f"{of}{name}": round(value, 3) for name, value in counts.items()}


def matched(
    images: VictimImages,
    points: np.ndarray,
    mean: np.ndarray | None,
    share: float = 1.0,
) -> candidates.Matches:
    """Return how candidates match the training images; see `candidates.match`."""
    return candidates.match(
        images.images,
        images.labels,
        points.reshape(-1, *images.images.shape[1:]),
        images.held_out,
        images.held_out_labels,
        mean=mean,
        share=share,
    )


def together(
    images: VictimImages, trials: list[KktRun]
) -> Float[np.ndarray, "candidates inputs"]:
    """Return the candidates of all runs, and the averages of near copies among them.

    Errors of runs differ, so the mean of near copies is closer to the truth than each.
    Finding copies does not need the training images. Diverged runs contribute nothing.
    """
    runs = [trial for trial in trials if not diverged(trial)]
    means = _merged(images, runs, _COPIES)
    points = [run.points for run in runs]
    return np.concatenate([*points, means.reshape(len(means), -1)])


def _merged(images: VictimImages, runs: list[KktRun], alike: float) -> np.ndarray:
    """Average near copies among the candidates of runs that have a multiplier."""
    points = np.concatenate([run.points[run.alive] for run in runs])
    # Relative to each run's largest: the runs' multipliers differ in number and scale.
    sizes = [run.multipliers[run.alive] / run.multipliers.max() for run in runs]
    shown = points.reshape(-1, *images.images.shape[1:])
    return candidates.merged(shown, np.concatenate(sizes), alike=alike)


def diverged(trial: KktRun) -> bool:
    """Return whether a run ended at NaN or infinite points."""
    return not np.isfinite(trial.points).all()


def stability(run: KktRun, runs: list[KktRun]) -> float:
    """Return the share of a run's candidates that other low-loss runs also contain.

    Candidates are weighted by their multipliers. An adversary can compute this without
    the training images.
    """
    others = [o for o in by_loss(runs) if o is not run and not diverged(o)][:_GOOD]
    if not others:
        raise ValueError("Expected at least two runs that ended, got one.")
    weights = np.maximum(run.multipliers, 0)
    shares = []
    for other in others:
        gaps = run.points[:, None] - other.points[other.alive][None]
        near = np.sqrt(np.mean(gaps**2, axis=-1)).min(axis=1) < _SAME
        shares.append(np.sum(weights * near) / max(weights.sum(), 1e-300))
    return float(np.mean(shares))


def as_seen(config: KktConfig, network: DenseLayers) -> DenseLayers:
    """Return the network that an attack uses: its first layer projected, `kkt.span`."""
    w = np.asarray(network[0].w)
    basis = kkt.span(w) if config.span else None
    if basis is None:
        return network
    return (Layer(jnp.asarray(basis.T @ (basis @ w)), network[0].b), *network[1:])


def ceilings(
    images: VictimImages, network: DenseLayers, mean: np.ndarray | None
) -> dict[str, int]:
    """Count the points that the first layer reveals, given all activation patterns.

    Args:
      network: theta as the attack sees it, see `as_seen`.
    Returns: `ceiling` and `ceiling_70` count correlations above 0.9 and 0.7,
      `ceiling_recovered` counts as `recovered` does, beside its control.
    """
    points = jnp.asarray(images.points)
    outputs = homogeneous.apply(network, points)
    directions = kkt.directions(outputs, jnp.asarray(images.labels))
    estimates = ceiling.from_patterns(network, points, directions)
    pairs = zip(images.points, estimates, strict=True)
    with np.errstate(invalid="ignore"):  # a constant estimate has no correlation
        alike = np.array([np.corrcoef(pair)[0, 1] for pair in pairs])
    counts = matched(images, estimates, mean).summary()
    return {
        "ceiling": int((alike > 0.9).sum()),
        "ceiling_70": int((alike > 0.7).sum()),
        "ceiling_recovered": int(counts["recovered"]),
        "ceiling_held_out_recovered": int(counts["held_out_recovered"]),
    }


def fit(
    experiment: Uninformed, images: VictimImages, network: DenseLayers
) -> dict[str, float]:
    """Compute loss and error on training images, loss and accuracy on held-out ones.

    Accuracy is averaged over classes, because held-out images are unbalanced.
    """
    # Of weights that another program trained the configuration doesn't tell the loss.
    kind = experiment.training.loss if network[-1].w.shape[1] == 1 else "logistic"
    outputs = homogeneous.apply(network, jnp.asarray(images.points))
    others = (images.held_out - images.mean).reshape(len(images.held_out), -1)
    other_outputs = homogeneous.apply(network, jnp.asarray(others))
    other_labels = jnp.asarray(images.held_out_labels)
    right = np.asarray(margin.margins(other_outputs, other_labels).min(axis=1) > 0)
    of_classes = [
        right[images.held_out_labels == label].mean()
        for label in np.unique(images.held_out_labels)
    ]
    train_loss = margin.loss(kind, outputs, jnp.asarray(images.labels))
    test_loss = margin.loss(kind, other_outputs, other_labels)
    return {
        "train_loss": float(f"{train_loss:.3g}"),
        "train_error": round(float((leads(images, network) <= 0).mean()), 4),
        "test_loss": float(f"{test_loss:.3g}"),
        "test_accuracy": round(float(np.mean(of_classes)), 4),
    }


def leads(images: VictimImages, network: DenseLayers) -> Float[np.ndarray, " points"]:
    """Return the right class's output minus the best other one, per training image."""
    outputs = homogeneous.apply(network, jnp.asarray(images.points))
    right = margin.margins(outputs, jnp.asarray(images.labels))
    return np.asarray(right.min(axis=1))


def at_truth(
    experiment: Uninformed, images: VictimImages, network: DenseLayers
) -> tuple[float, np.ndarray]:
    """Measure the victim's distance from a KKT point, at its own training points.

    Args:
      network: theta as the attack sees it, see `as_seen`.
    Returns: |theta - sum| / |theta| with the best coefficients, and this ratio per
      layer, (layers,). Where it is large, a poor score says nothing about the attack.
    """
    points = jnp.asarray(images.points)
    outputs = homogeneous.apply(network, points)
    directions = kkt.directions(outputs, jnp.asarray(images.labels))
    alpha = experiment.attack.alpha / stationarity.typical_sums(network, points)
    signed = experiment.attack.coefficients == "signed"
    best = stationarity.best_multipliers(
        network, points, directions, alpha, signed=signed
    )
    coefficients = jnp.asarray(best, points.dtype)[:, None] * directions
    at = stationarity.passes(network, points, coefficients, alpha)
    squares = np.asarray(stationarity.plain(network, at))
    norms = np.array([float(homogeneous.squared_norm((layer,))) for layer in network])
    return float(np.sqrt(squares.sum() / norms.sum())), np.sqrt(squares / norms)


def draw_images(images: VictimImages, matches: candidates.Matches, path: Path) -> None:
    """Draw training images by decreasing SSIM, each with its nearest candidate."""
    order = np.argsort(-matches.ssim)[:_SHOWN]
    rows = [
        ImageRow("training", images.images[order]),
        ImageRow("candidate", matches.images[order], matches.ssim[order]),
    ]
    draw_rows(rows, path)


def _draw_outputs(
    network: DenseLayers, images: VictimImages, matches: candidates.Matches, path: Path
) -> None:
    """Draw Figure 4 of Haim et al. 2022: only points on the margin can be recovered."""
    figure = matplotlib.figure.Figure(figsize=(4, 3), layout="constrained")
    axes = figure.subplots()
    axes.scatter(leads(images, network), matches.ssim, s=12)
    axes.axhline(candidates.SIMILAR, color="grey", linewidth=0.8)
    axes.set(xlabel="lead of the right class", ylabel="SSIM of the reconstruction")
    files.write_bytes(path, report.png(figure))
