"""What KKT attacks on a victim are worth: counts, controls, baselines, pictures.

Everything here compares with the training images, which no adversary can. The run that
is judged is the one that an adversary would choose, by its loss. Beside its counts
stand the same counts for held-out images, two baselines, how far the victim is from a
KKT point, and what its first layer tells to whoever knows all patterns.

Checked: tests/uninformed/kkt/test_evaluation.py.
"""

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
from uninformed.kkt import search as kkt_search
from uninformed.kkt.experiment import BASELINES, Attacked, Uninformed, key_of
from uninformed.kkt.images import VictimImages
from uninformed.results import ImageRow, draw_rows

# The pictures, by their files.
RECONSTRUCTIONS, OUTPUTS = "reconstructions.png", "outputs.png"
# Root mean square difference, in pixels of [0, 1], within which `stability` takes two
# candidates for the same: larger takes similar images for one, smaller takes runs that
# came to rest a little apart for different ones.
_SAME = 0.05
# Of the best score, at least, of candidates that are averaged: Appendix B.3.
_VOTING = 0.9
# NCC from which candidates of several runs are taken for copies of one point. Of 0.5 to
# 0.9 the one by which most came out of 500 images of CIFAR-10 (the first 250 of each
# class): 16 instead of 12 of four runs.
_COPIES = 0.7
# Points of extreme output, at most; a thousand of 3,072 inputs take seven minutes.
_PROTOTYPES = 200
# Columns of a picture: more are too small to be looked at.
_SHOWN = 20


def evaluate(
    experiment: Uninformed, attacked: Attacked, workdir: Path
) -> dict[str, Any]:
    """Counts of the run that an adversary would choose, controls, baselines, pictures.

    `oracle_recovered` is the most that any of the runs has, chosen by looking at the
    training images; `pooled_recovered` what an adversary has who keeps all of them, see
    `together`, whose control, counted among as many candidates, is
    `pooled_held_out_similar`.
    """
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
    found = matched(images, chosen.points, mean)
    count = min(experiment.attack.candidates, _PROTOTYPES)
    inversion = model_inversion.InversionOfModel(count=count)
    baseline_key = key_of(experiment, BASELINES)
    prototypes = model_inversion.invert(inversion, network, key=baseline_key)
    baselines = {
        "first_layer": model_inversion.first_layer(network),
        "model_inversion": prototypes,
    }
    seen = as_seen(experiment.attack, network)
    left, layers = at_truth(experiment, images, seen)
    everything = together(images, trials)
    pooled = matched(images, everything, mean).summary()
    of_runs = [
        0 if diverged(t) else int(matched(images, t.points, mean).recovered.sum())
        for t in trials
    ]
    results: dict[str, Any] = {
        **{
            name: value if isinstance(value, int) else round(value, 3)
            for name, value in found.summary().items()
        },
        **{
            f"{name}_recovered": int(matched(images, points, mean).recovered.sum())
            for name, points in baselines.items()
        },
        "runs_recovered": of_runs,
        "oracle_recovered": max(of_runs),
        "diverged": lost,
        "voted_recovered": int(
            matched(images, chosen.points, mean, _VOTING).recovered.sum()
        ),
        **{
            f"pooled_{name}": pooled[name]
            for name in ("similar", "recovered", "held_out_similar")
        },
        "pooled_candidates": len(everything),
        "pooled_precision": round(pooled["precision"], 3),
        "distinct": _distinct(images, chosen),
        "residual": round(chosen.residual, 3),
        "residual_at_truth": round(left, 3),
        "layers_at_truth": [round(float(each), 3) for each in layers],
        **ceilings(images, seen, mean),
        **fit(experiment, images, network),
    }
    if len(trials) > 1:
        results["stability"] = round(
            kkt_search.stability(chosen, trials, apart=_SAME), 3
        )
    draw_images(images, found, workdir / RECONSTRUCTIONS)
    _draw_outputs(network, images, found, workdir / OUTPUTS)
    return results


def matched(
    images: VictimImages,
    points: np.ndarray,
    mean: np.ndarray | None,
    share: float = 1.0,
) -> candidates.Matches:
    """Candidates beside the training images; `mean`: if the adversary knows it."""
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
    """The candidates of all runs, and the averages of those that are near copies.

    Runs err in different ways, so where they agree their mean is nearer to the truth
    than each. Which ones are copies is told without the training images. Runs that
    diverged have no candidates.
    """
    shape = images.images.shape[1:]
    found = [each for each in trials if not diverged(each)]
    points = np.concatenate([each.points for each in found])
    shown = np.concatenate([each.points[each.alive] for each in found])
    # In units of each run's largest: runs have candidates of their own number and size.
    sizes = np.concatenate(
        [each.multipliers[each.alive] / each.multipliers.max() for each in found]
    )
    means = candidates.merged(shown.reshape(-1, *shape), sizes, alike=_COPIES)
    return np.concatenate([points, means.reshape(len(means), -1)])


def diverged(trial: KktRun) -> bool:
    """Whether a run ended at what are no images."""
    return not np.isfinite(trial.points).all()


def _distinct(images: VictimImages, found: KktRun) -> int:
    """Candidates with a multiplier, near copies counted once."""
    shown = found.points[found.alive].reshape(-1, *images.images.shape[1:])
    return len(candidates.merged(shown, found.multipliers[found.alive]))


def as_seen(config: KktConfig, network: DenseLayers) -> DenseLayers:
    """The network that an attack sees: of the first layer what isn't initial noise."""
    basis = kkt.span(np.asarray(network[0].w)) if config.span else None
    if basis is None:
        return network
    inside = jnp.asarray(basis.T @ (basis @ np.asarray(network[0].w)))
    return (Layer(inside, network[0].b), *network[1:])


def ceilings(
    images: VictimImages, network: DenseLayers, mean: np.ndarray | None
) -> dict[str, int]:
    """How many points the first layer tells to whoever knows the patterns.

    Args:
      network: theta as the attack sees it, see `as_seen`.
    Returns: `ceiling` and `ceiling_70` count correlations above 0.9 and 0.7,
      `ceiling_recovered` counts as `recovered` does.
    """
    points = jnp.asarray(images.points)
    outputs = homogeneous.apply(network, points)
    directions = kkt.directions(outputs, jnp.asarray(images.labels))
    told = ceiling.told(network, points, directions)
    alike = ceiling.correlations(images.points, told)
    return {
        "ceiling": int((alike > 0.9).sum()),
        "ceiling_70": int((alike > 0.7).sum()),
        "ceiling_recovered": int(matched(images, told, mean).recovered.sum()),
    }


def fit(
    experiment: Uninformed, images: VictimImages, network: DenseLayers
) -> dict[str, float]:
    """Loss and error on the training images; loss and accuracy on held-out ones.

    Accuracy is the mean over classes, of which held-out images have unequal shares.
    """
    outputs = homogeneous.apply(network, jnp.asarray(images.points))
    labels = jnp.asarray(images.labels)
    others = (images.held_out - images.mean).reshape(len(images.held_out), -1)
    unseen = homogeneous.apply(network, jnp.asarray(others))
    unseen_labels = jnp.asarray(images.held_out_labels)
    unseen_leads = margin.margins(unseen, unseen_labels)
    right = np.asarray(unseen_leads.min(axis=1) > 0)
    of_classes = [
        right[images.held_out_labels == label].mean()
        for label in np.unique(images.held_out_labels)
    ]
    wrong = margin.margins(outputs, labels).min(axis=1) <= 0
    kind = experiment.training.loss
    return {
        "train_loss": float(f"{margin.loss(kind, outputs, labels):.3g}"),
        "train_error": round(float(wrong.mean()), 4),
        "test_loss": float(f"{margin.loss(kind, unseen, unseen_labels):.3g}"),
        "test_accuracy": round(float(np.mean(of_classes)), 4),
    }


def leads(images: VictimImages, network: DenseLayers) -> Float[np.ndarray, " points"]:
    """By how much the right class leads at each training image."""
    outputs = homogeneous.apply(network, jnp.asarray(images.points))
    right = margin.margins(outputs, jnp.asarray(images.labels))
    return np.asarray(right.min(axis=1))


def at_truth(
    experiment: Uninformed, images: VictimImages, network: DenseLayers
) -> tuple[float, np.ndarray]:
    """How far the victim is from a KKT point, at its own training points.

    Args:
      network: theta as the attack sees it, see `as_seen`.
    Returns: |theta - sum| / |theta| with the best coefficients, and this quotient for
      each layer by itself, (layers,). Where it is large, any attack looks bad.
    """
    points = jnp.asarray(images.points)
    outputs = homogeneous.apply(network, points)
    directions = kkt.directions(outputs, jnp.asarray(images.labels))
    alpha = experiment.attack.alpha / stationarity.typical_sums(network, points)
    best = stationarity.best_multipliers(
        network,
        points,
        directions,
        alpha,
        signed=experiment.attack.coefficients == "signed",
    )
    coefficients = jnp.asarray(best, points.dtype)[:, None] * directions
    at = stationarity.passes(network, points, coefficients, alpha)
    left = np.asarray(stationarity.plain(network, at))
    norms = np.array([float(homogeneous.squared_norm((each,))) for each in network])
    return float(np.sqrt(left.sum() / norms.sum())), np.sqrt(left / norms)


# Pictures


def draw_images(images: VictimImages, found: candidates.Matches, path: Path) -> None:
    """Training images by falling SSIM, and the candidate nearest to each."""
    order = np.argsort(-found.ssim)[:_SHOWN]
    rows = [
        ImageRow("training", images.images[order]),
        ImageRow("candidate", found.images[order], found.ssim[order]),
    ]
    draw_rows(rows, path)


def _draw_outputs(
    network: DenseLayers, images: VictimImages, found: candidates.Matches, path: Path
) -> None:
    """Figure 4 of Haim et al. 2022: only points on the margin can be found."""
    figure = matplotlib.figure.Figure(figsize=(4, 3), layout="constrained")
    axes = figure.subplots()
    axes.scatter(leads(images, network), found.ssim, s=12)
    axes.axhline(candidates.SIMILAR, color="grey", linewidth=0.8)
    axes.set(xlabel="lead of the right class", ylabel="SSIM of the reconstruction")
    files.write_bytes(path, report.png(figure))
