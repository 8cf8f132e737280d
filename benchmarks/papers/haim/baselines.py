"""Figures 5, 12 to 15: model inversion, and the first layer's weights as images."""

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np

from benchmarks import weights_alone
from benchmarks.papers.lab import Lab
from benchmarks.papers.row import Found, Line, Picture, measures
from benchmarks.papers.weights import Trained, identity, trained
from informed import report
from uninformed import candidates, homogeneous, model_inversion
from uninformed import max_margin as margin
from uninformed.kkt import scoring
from uninformed.model_inversion import InversionOfModel

# Prototypes of each victim. The paper makes 40,000 and shows 500.
_COUNT, _SHOWN = 500, 100
_VICTIMS = {"CIFAR-10": "cifar-500-flow", "MNIST": "mnist-500-flow"}


def _victims(lab: Lab) -> dict[str, Trained]:
    """Both victims of Figure 3."""
    return {
        title: trained(lab, name, weights_alone.ROWS[name])
        for title, name in _VICTIMS.items()
    }


def _prototypes(lab: Lab, title: str, made: Trained) -> np.ndarray:
    """(count, inputs), what model inversion makes of a victim, once."""

    def invert() -> dict[str, np.ndarray]:
        config = InversionOfModel(count=_COUNT)
        found = model_inversion.invert(config, made.network, key=jax.random.key(0))
        return {"points": found}

    key = [_COUNT, identity(made)]
    return lab.kept(f"model-inversion-{_VICTIMS[title]}", key, invert)["points"]


@measures("haim/figure-5a")
def figure_5a(lab: Lab) -> Found:
    """Points of extreme output: what they resemble, and each other."""
    lines, totals, likeness = [], [], []
    for title, made in _victims(lab).items():
        shape = made.images.images.shape[1:]
        points = _prototypes(lab, title, made)
        found = scoring.matched(made.images, points, made.images.mean)
        labels = np.asarray(margin.equal_shares(_COUNT, 2))
        totals.append(int(found.recovered.sum()))
        alike = _alike(points.reshape(-1, *shape), labels)
        likeness.append(alike)
        of_images = _alike(made.images.points.reshape(-1, *shape), made.images.labels)
        lines.append(
            Line(
                name=title,
                ours={
                    **_counts(found),
                    "correlation within a class": alike,
                    "of training images": of_images,
                },
            )
        )
    return Found(
        holds=max(totals) <= 5 and min(likeness) > 0.5,
        verdict=f"By {_COUNT} prototypes each, {totals[0]} (CIFAR-10) and {totals[1]}"
        " (MNIST) training images are recovered; two prototypes of a class correlate by"
        f" {likeness[0]:.2f} and {likeness[1]:.2f} at the median.",
        theirs="blurry, probably averages of each class",
        ours=f"{totals[0]} and {totals[1]} of 500 recovered",
        lines=lines,
    )


def _counts(found: candidates.Matches) -> dict[str, int | float]:
    """What of the training images comes out, and of as many held-out ones."""
    summary = found.summary()
    return {
        "similar": summary["similar"],
        "recovered": summary["recovered"],
        "control": summary["held_out_similar"],
    }


def _alike(images: np.ndarray, labels: np.ndarray) -> float:
    """Median correlation of two different images of a class, the lesser of both."""
    found = []
    for label in (0, 1):
        ncc = candidates.ncc(images[labels == label], images[labels == label])
        found.append(np.median(ncc[np.triu_indices(len(ncc), 1)]))
    return float(np.min(found))


@measures("haim/figures-12-13")
def figures_12_13(lab: Lab) -> Found:
    """Pictures of the prototypes, sorted by output."""
    pictures = []
    for title, made in _victims(lab).items():
        points = _prototypes(lab, title, made)
        outputs = np.asarray(homogeneous.apply(made.network, jnp.asarray(points)))
        order = np.argsort(outputs[:, 0])[:: _COUNT // _SHOWN]
        pictured = points.reshape(-1, *made.images.images.shape[1:])[order]
        shown = candidates.stretched(pictured + made.images.mean)
        caption = f"{title}: every fifth prototype, by rising output."
        pictures.append(Picture(_montage(shown), caption))
    return Found(
        holds=None,
        verdict="Pictures, to be looked at; Figure 5a counts.",
        theirs="blurry, most alike",
        ours="shown",
        pictures=pictures,
    )


@measures("haim/figure-5b")
def figure_5b(lab: Lab) -> Found:
    """The weights most similar to training images, above these."""
    lines, pictures, totals = [], [], []
    for title, made in _victims(lab).items():
        points = model_inversion.first_layer(made.network)
        found = scoring.matched(made.images, points, made.images.mean)
        totals.append(int(found.recovered.sum()))
        lines.append(
            Line(name=title, ours={"units": len(points) // 2, **_counts(found)})
        )
        best = np.argsort(-found.ssim)[:10]
        both = np.concatenate([found.images[best], made.images.images[best]])
        caption = f"{title}: the ten most similar weights, above training images."
        pictures.append(Picture(_montage(both, columns=10), caption))
    return Found(
        holds=max(totals) <= 4,
        verdict=f"{totals[0]} (CIFAR-10) and {totals[1]} (MNIST) training images are"
        " recovered by one of the 1,000 units' weights, taken both ways, as large as"
        " images are around their mean.",
        theirs="not more than 3 or 4",
        ours=f"{totals[0]} and {totals[1]}",
        lines=lines,
        pictures=pictures,
    )


@measures("haim/figures-14-15")
def figures_14_15(lab: Lab) -> Found:
    """All weights, a hundred of them shown."""
    pictures, shares = [], []
    for title, made in _victims(lab).items():
        weights = np.asarray(made.network[0].w).T
        pictured = weights.reshape(-1, *made.images.images.shape[1:])
        lengths = np.linalg.norm(weights, axis=1)
        order = np.argsort(-lengths)[:_SHOWN]
        # Many units have one direction: how much of all weights two directions hold.
        sizes = np.linalg.svd(weights, compute_uv=False) ** 2
        shares.append(float(sizes[:2].sum() / sizes.sum()))
        caption = f"{title}: the {_SHOWN} largest units' weights, each stretched."
        pictures.append(
            Picture(_montage(candidates.stretched(pictured[order])), caption)
        )
    return Found(
        holds=None,
        verdict=f"Two directions hold {shares[0]:.0%} (CIFAR-10) and {shares[1]:.0%}"
        " (MNIST) of all squared weights. Pictures, to be looked at; Figure 5b counts.",
        theirs="some weights are indicative of several samples",
        ours=f"two directions hold {shares[0]:.0%} and {shares[1]:.0%}",
        pictures=pictures,
    )


def _montage(images: np.ndarray, columns: int = 20) -> bytes:
    """Images side by side, line by line, a white pixel between them."""
    rows = -(-len(images) // columns)
    height, width, channels = images.shape[1:]
    sheet = np.ones((rows * columns, height + 1, width + 1, channels))
    sheet[: len(images), :height, :width] = images
    sheet = sheet.reshape(rows, columns, height + 1, width + 1, channels)
    sheet = sheet.swapaxes(1, 2).reshape(rows * (height + 1), -1, channels)
    figure = matplotlib.figure.Figure(
        figsize=(8.0, 8.0 * sheet.shape[0] / sheet.shape[1]), dpi=120
    )
    axes = figure.add_axes((0, 0, 1, 1))
    report.show(axes, sheet)
    axes.set_axis_off()
    return report.png(figure)
