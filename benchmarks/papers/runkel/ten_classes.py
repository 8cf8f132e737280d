"""Figures 5 to 9: the KKT attack on ten classes, by where its candidates begin.

Runkel et al. take the attack of Buzaglo et al. 2023 ("DecoReco") as it is and change
only where candidates begin. The attack here is ours, which finds more; so a row says
nothing where the usual start finds nothing either. Ten classes, biases in all hidden
layers, twice as many candidates as points.
"""

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import sklearn.metrics

from benchmarks import weights_alone
from benchmarks.papers.lab import Lab
from benchmarks.papers.row import Found, Line, Picture, measures
from benchmarks.papers.weights import Trained, identity, trained
from informed import report
from uninformed import candidates, kkt
from uninformed.kkt import scoring

_POINTS, _SHOWN = 50, 10
_CAPTION = (
    "Candidates of the largest multipliers, above the training images nearest to them."
)
# Training images that the usual start recovers, at least, for a row to say anything.
_ENOUGH = 5


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Ends:
    """Where candidates with a multiplier have ended.

    Attributes:
      images: candidates with the mean added, stretched to [0, 1].
      multipliers: their multipliers, (candidates,).
      nearest: index of the training image most similar to each, (candidates,).
      ssim: SSIM with that image, (candidates,).
      true: whether that exceeds 0.4, and the SSIM with any held-out image.
      begun: SSIM with what the candidate began at; None: it began at random.
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


def _ends(lab: Lab, made: Trained, start: float | None) -> _Ends:
    """One run of the attack.

    Args:
      made: the victim.
      start: standard deviation of the candidates' pixels at the start; None: they begin
        at other images of the training images' classes.
    """
    images, config = made.images, made.config.attack
    taken = np.zeros(0, np.int64)
    if start is None:
        taken = _partition(images.held_out_labels, config.candidates)
        config = dataclasses.replace(config, restarts=0)
    else:
        config = dataclasses.replace(config, start=start)
    begun = images.held_out[taken] - images.mean
    begun = begun.reshape(len(taken), images.points.shape[1])

    def attack() -> Mapping[str, np.ndarray]:
        starts = jnp.asarray(begun[None], jnp.float32) if start is None else None
        found = kkt.attack_many(
            config,
            made.network,
            keys=jax.random.key(0)[None],
            mean=images.mean.ravel(),
            starts=starts,
        )[0]
        return {
            "points": found.points,
            "multipliers": found.multipliers,
            "alive": found.alive,
        }

    name = "ten-classes-" + ("partition" if start is None else f"normal-{start}")
    found = lab.kept(name, [dataclasses.asdict(config), identity(made)], attack)
    alive = found["alive"]
    points, shape = found["points"][alive], images.images.shape[1:]
    shown = candidates.stretched(points.reshape(-1, *shape) + images.mean)
    similar = candidates.ssim_of_all(shown, images.images)
    # What a candidate began at is no control of what it has become.
    rest = np.setdiff1d(np.arange(len(images.held_out)), taken)
    others = candidates.ssim_of_all(shown, images.held_out[rest]).max(axis=1)
    control = dataclasses.replace(
        images,
        held_out=images.held_out[rest],
        held_out_labels=images.held_out_labels[rest],
    )
    matched = scoring.matched(control, found["points"], images.mean)
    from_there = None
    if start is None:
        # Candidates begin within the span of the first layer, which cuts images off.
        basis = kkt.span(np.asarray(made.network[0].w))
        inside = begun if basis is None else begun @ basis.T @ basis
        seen = candidates.stretched(inside.reshape(-1, *shape) + images.mean)
        from_there = candidates.ssim(seen[alive], shown)
    nearest = similar.argmax(axis=1)
    best = similar.max(axis=1)
    return _Ends(
        images=shown,
        multipliers=found["multipliers"][alive],
        nearest=nearest,
        ssim=best,
        true=(best > candidates.SIMILAR) & (best > others),
        begun=from_there,
        recovered=int(matched.recovered.sum()),
    )


def _partition(labels: np.ndarray, count: int) -> np.ndarray:
    """Indices of held-out images, in the order of the candidates' classes."""
    wanted = np.bincount(np.arange(count) * 10 // count, minlength=10)
    return np.concatenate(
        [np.flatnonzero(labels == label)[:n] for label, n in enumerate(wanted)]
    )


def _says(holds: bool, usual: _Ends) -> bool | None:
    """Whether a claim holds; None where the attack finds next to nothing anyway."""
    return holds if usual.recovered >= _ENOUGH else None


@measures("runkel/figure-5")
def figure_5(lab: Lab) -> Found:
    """Candidates that begin at N(0, 1)."""
    made = _victim(lab)
    wide, usual = (_ends(lab, made, start) for start in (1.0, made.config.attack.start))
    return Found(
        holds=_says(wide.recovered <= 3, usual),
        verdict=f"From N(0, 1) {wide.recovered} of {_POINTS} training images are"
        f" recovered, from half that width, the usual start, {usual.recovered}.",
        theirs="at most three resemble natural images",
        ours=f"{wide.recovered} of {_POINTS}; usual start {usual.recovered}",
        lines=[_line("from N(0, 1)", wide), _line("from the usual start", usual)],
        pictures=[Picture(_picture(made, wide), f"From N(0, 1). {_CAPTION}")],
    )


@measures("runkel/figures-6-7")
def figures_6_7(lab: Lab) -> Found:
    """Whether an adversary can tell which candidates are training images."""
    made = _victim(lab)
    ends = _ends(lab, made, made.config.attack.start)
    order = np.argsort(-ends.multipliers)
    ranks = np.empty(len(order), int)
    ranks[np.argsort(-ends.ssim)] = 1 + np.arange(len(order))
    told = _auc(ends)
    first = int(ends.true[order[:_SHOWN]].sum())
    auc = "none" if told is None else f"{told:.2f}"
    return Found(
        holds=None if told is None else _says(told < 0.7, ends),
        verdict=f"Of the {_SHOWN} candidates of the largest multipliers {first} are"
        f" training images, of all {len(order)} {int(ends.true.sum())}; their ranks by"
        " similarity with the nearest training image are"
        f" {', '.join(str(ranks[i]) for i in order[:_SHOWN])}. Multipliers, which the"
        " adversary sees, tell training images from others with an AUC of"
        f" {auc}.",
        theirs="nobody can guess which is ranked 51st",
        ours=f"AUC of multipliers {auc}",
        lines=[_line("from the usual start", ends)],
        pictures=[Picture(_picture(made, ends), _CAPTION)],
    )


def _auc(ends: _Ends) -> float | None:
    if ends.true.all() or not ends.true.any():
        return None
    return float(sklearn.metrics.roc_auc_score(ends.true, ends.multipliers))


@measures("runkel/figures-8-9")
def figures_8_9(lab: Lab) -> Found:
    """Candidates that begin at other images of the same classes."""
    made = _victim(lab)
    ends, usual = (
        _ends(lab, made, start) for start in (None, made.config.attack.start)
    )
    assert ends.begun is not None
    stayed = float(np.mean(ends.begun > ends.ssim))
    return Found(
        holds=_says(stayed > 0.5 and ends.recovered <= 1, usual),
        verdict=f"{stayed:.0%} of the {len(ends.ssim)} candidates with a multiplier are"
        " more similar to what they began at than to any training image;"
        f" {ends.recovered} of {_POINTS} training images are recovered, from the usual"
        f" start {usual.recovered}.",
        theirs="most reflect the start, one training image comes out",
        ours=f"{stayed:.0%} reflect the start, {ends.recovered} come out",
        lines=[_line("from other images", ends)],
        pictures=[Picture(_picture(made, ends), f"From other images. {_CAPTION}")],
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


def _picture(made: Trained, ends: _Ends) -> bytes:
    """The candidates of the largest multipliers, and the images nearest to them."""
    images = made.images.images
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
