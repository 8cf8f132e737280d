"""Figures 5 to 9: the KKT attack of Buzaglo et al. 2023 ("DecoReco"), by its start.

Ten classes, biases in all hidden layers, twice as many candidates as points. Runkel et
al. leave the attack as it is and change only where candidates begin.
"""

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import sklearn.metrics

from benchmarks import weights_alone
from benchmarks.papers.haim.common import Trained, trained
from benchmarks.papers.lab import Lab
from benchmarks.papers.row import Found, Line, Picture, Row
from informed import report
from uninformed import candidates, kkt
from uninformed.kkt import evaluation

_POINTS, _SHOWN = 50, 10
_CAPTION = (
    "Candidates of the largest multipliers, above the training images nearest to them."
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Ends:
    """Where candidates of a run have ended.

    Attributes:
      images: candidates with the mean added, stretched to [0, 1].
      multipliers: their multipliers, (candidates,).
      nearest: index of the training image nearest to each, (candidates,).
      ssim: SSIM with that image, (candidates,).
      true: whether that exceeds 0.4, and the SSIM with any held-out image.
      begun: SSIM with the image that the candidate began at; None: it began at random.
      recovered: number of training images that count as recovered.
    """

    images: np.ndarray
    multipliers: np.ndarray
    nearest: np.ndarray
    ssim: np.ndarray
    true: np.ndarray
    begun: np.ndarray | None
    recovered: int


def _victim(lab: Lab) -> Trained:
    return trained(lab, "cifar-ten-classes", weights_alone.ROWS["cifar-ten-classes"])


def _ends(lab: Lab, start: float | None) -> _Ends:
    """One run of the attack.

    Args:
      start: standard deviation of the candidates' pixels at the start; None: they begin
        at other images of the training images' classes.
    """
    made = _victim(lab)
    images, partition = made.images, None
    config = made.config.attack
    if start is None:
        partition = _partition(made, config.candidates)
        config = dataclasses.replace(config, restarts=0)
    else:
        config = dataclasses.replace(config, start=start)

    def attack() -> Mapping[str, np.ndarray]:
        starts = None
        if partition is not None:
            starts = (partition - images.mean).reshape(1, len(partition), -1)
            starts = jnp.asarray(starts, jnp.float32)
        found = kkt.attack_many(
            config,
            made.network,
            keys=jax.random.key(0)[None],
            mean=images.mean.ravel(),
            starts=starts,
        )[0]
        return {"points": found.points, "multipliers": found.multipliers}

    name = "partition" if start is None else f"normal-{start}"
    found = lab.kept(
        f"decoreco-{name}", [dataclasses.asdict(config), made.fit["train_loss"]], attack
    )
    points = found["points"].reshape(-1, *images.images.shape[1:])
    shown = candidates.stretched(points + images.mean)
    alike = candidates.ncc(points, images.images - images.mean)
    nearest = alike.argmax(axis=1)
    similar = candidates.ssim(images.images[nearest], shown)
    others = candidates.ssim_of_all(shown, images.held_out).max(axis=1)
    matched = evaluation.matched(images, found["points"], images.mean)
    return _Ends(
        images=shown,
        multipliers=found["multipliers"],
        nearest=nearest,
        ssim=similar,
        true=(similar > candidates.SIMILAR) & (similar > others),
        begun=None if partition is None else candidates.ssim(partition, shown),
        recovered=int(matched.recovered.sum()),
    )


def _partition(made: Trained, count: int) -> np.ndarray:
    """Held-out images in the order of the candidates' classes."""
    labels = np.arange(count) * 10 // count
    chosen: list[int] = []
    for label in range(10):
        pool = np.flatnonzero(made.images.held_out_labels == label)
        chosen += pool[: int((labels == label).sum())].tolist()
    return made.images.held_out[chosen]


def figure_5(lab: Lab) -> Found:
    """Candidates that begin at N(0, 1)."""
    wide, usual = _ends(lab, 1.0), _ends(lab, _usual(lab))
    return Found(
        holds=wide.recovered <= 3,
        verdict=f"From N(0, 1) {wide.recovered} of {_POINTS} training images are"
        f" recovered, from the usual start {usual.recovered}.",
        theirs="at most three resemble natural images",
        ours=f"{wide.recovered} of {_POINTS}; usual start {usual.recovered}",
        lines=[_line("from N(0, 1)", wide), _line("from the usual start", usual)],
        pictures=[
            Picture(
                _picture(lab, wide),
                f"From N(0, 1). {_CAPTION}",
            )
        ],
    )


def _usual(lab: Lab) -> float:
    return _victim(lab).config.attack.start


def figures_6_7(lab: Lab) -> Found:
    """Whether an adversary can tell which candidates are training images."""
    ends = _ends(lab, _usual(lab))
    order = np.argsort(-ends.multipliers)
    ranks = np.empty(len(order), int)
    ranks[np.argsort(-ends.ssim)] = 1 + np.arange(len(order))
    told = _auc(ends)
    first = int(ends.true[order[:_SHOWN]].sum())
    return Found(
        holds=told is None or told < 0.7,
        verdict=f"Of the {_SHOWN} candidates of the largest multipliers {first} are"
        f" training images, of all {len(order)} {int(ends.true.sum())}; their ranks by"
        " similarity with the nearest training image are"
        f" {', '.join(str(ranks[i]) for i in order[:_SHOWN])}. Multipliers, which the"
        f" adversary sees, tell training images from others with an AUC of"
        f" {'none' if told is None else f'{told:.2f}'}.",
        theirs="nobody can guess which is ranked 51st",
        ours="AUC of multipliers" + (" none" if told is None else f" {told:.2f}"),
        lines=[_line("from the usual start", ends)],
        pictures=[
            Picture(
                _picture(lab, ends),
                _CAPTION,
            )
        ],
    )


def _auc(ends: _Ends) -> float | None:
    if ends.true.all() or not ends.true.any():
        return None
    return float(sklearn.metrics.roc_auc_score(ends.true, ends.multipliers))


def figures_8_9(lab: Lab) -> Found:
    """Candidates that begin at other images of the same classes."""
    ends = _ends(lab, None)
    assert ends.begun is not None
    stayed = float(np.mean(ends.begun > ends.ssim))
    return Found(
        holds=stayed > 0.5 and ends.recovered <= 1,
        verdict=f"{stayed:.0%} of the candidates are more similar to the image they"
        f" began at than to any training image; {ends.recovered} of {_POINTS} training"
        " images are recovered.",
        theirs="most reflect the start, one training image comes out",
        ours=f"{stayed:.0%} reflect the start, {ends.recovered} come out",
        lines=[_line("from other images", ends)],
        pictures=[
            Picture(
                _picture(lab, ends),
                f"From other images. {_CAPTION}",
            )
        ],
    )


def _line(name: str, ends: _Ends) -> Line:
    return Line(
        name=name,
        ours={
            "training images recovered": ends.recovered,
            "candidates that are training images": int(ends.true.sum()),
            "candidates": len(ends.true),
            "mean SSIM with the nearest": float(ends.ssim.mean()),
            "AUC of multipliers": _auc(ends),
        },
    )


def _picture(lab: Lab, ends: _Ends) -> bytes:
    """The candidates of the largest multipliers, and the images nearest to them."""
    images = _victim(lab).images.images
    order = np.argsort(-ends.multipliers)[: 2 * _SHOWN]
    figure = matplotlib.figure.Figure(figsize=(8.0, 1.3), dpi=120)
    for column, i in enumerate(order):
        for row, image in enumerate((ends.images[i], images[ends.nearest[i]])):
            axes = figure.add_axes(
                (column / len(order), (1 - row) / 2, 0.95 / len(order), 0.48)
            )
            report.show(axes, image)
            axes.set_axis_off()
            if row == 0:
                axes.set_title(f"{ends.ssim[i]:.2f}", fontsize=6, pad=1)
    return report.png(figure)


_SIZE = (
    f"{_POINTS} images of ten classes, 1000-1000 units with biases, trained to a loss"
    f" of 1.5e-6; {2 * _POINTS} candidates, one run of 20,000 steps"
)
ROWS = (
    Row(
        paper="runkel",
        name="figure-5",
        title="Figure 5",
        claim="From N(0, 1) the KKT attack finds next to nothing.",
        size=_SIZE,
        decides="at most three training images recovered",
        measure=figure_5,
        needs="ten minutes",
    ),
    Row(
        paper="runkel",
        name="figures-6-7",
        title="Figures 6 and 7",
        claim="Nobody can tell which candidates are training images.",
        size=_SIZE,
        decides="multipliers, which an adversary sees, have an AUC below 0.7",
        measure=figures_6_7,
        needs="the run of Figure 5",
    ),
    Row(
        paper="runkel",
        name="figures-8-9",
        title="Figures 8 and 9",
        claim="Candidates that begin at other images stay there.",
        size=_SIZE,
        decides="more than half are more similar to their start than to any training"
        " image, and at most one training image is recovered",
        measure=figures_8_9,
        needs="the run of Figure 5, and five minutes",
    ),
)
