"""Table 1 and Figures 1 to 4 and 10 to 12: where attacks end, by where they began.

One run of `uninformed.landscape` makes all rows: 20 images of CIFAR-10, an affine
victim for the bilevel attack, and a homogeneous network for the KKT attack, which
stands in for the paper's DecoReco. 32 starts: mixtures l2 (l1 truth + (1 - l1)
partition) + (1 - l2) noise, and some beside them.
"""

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.papers.lab import Lab
from benchmarks.papers.row import Found, Line, Picture, measures
from configs import landscape as config_file
from shadow import checks
from uninformed.landscape import mixtures, study
from uninformed.landscape.conclusions import FITS
from uninformed.landscape.runs import LandscapeConfig

_PICTURES = ("maps.png", "curves.png", "images_bilevel.png")
_METHODS = ("bilevel", "kkt")
_DISTANCE = "squared distance of theta"
# The paper's |theta - theta*|^2 of Table 1.
_TABLE_1 = {
    "affine": {"noise": 1.1214e-3, "truth": 1.3888e-3, "partition": 2.9749e-3},
    "one_hidden": {"noise": 6.1157e-5, "truth": 1.7055e-3, "partition": 6.3629e-3},
}


@dataclasses.dataclass(frozen=True, eq=False)
class _Landscape:
    """A finished run: results.json, and the pictures by their files' names."""

    results: Mapping[str, Any]
    pictures: Mapping[str, bytes]

    def at(self, method: str, quantity: str, start: str) -> float:
        """A quantity of `quantities.measure` at a start."""
        row = self.results["starts"].index(start)
        return float(self.results[method][quantity][row])

    def along(self, method: str, quantity: str, *, noise: bool) -> list[float]:
        """A quantity along l1 at l2 = 1, or with `noise` along l2 at l1 = 1."""
        pairs = [(1.0, s) if noise else (s, 1.0) for s in mixtures.SHARES]
        return [self.at(method, quantity, mixtures.name(*pair)) for pair in pairs]


def _landscape(lab: Lab, size: str = "affine") -> _Landscape:
    values = config_file.get_config(size).to_dict()
    config = checks.build(LandscapeConfig, values)
    folder = lab.work / f"landscape-{size}"

    def made() -> Mapping[str, np.ndarray]:
        results = study.run(config, folder, lab.data_dir, progress=lab.progress)
        drawn = {name: (folder / name).read_bytes() for name in _PICTURES}
        return {"results": np.array(json.dumps(results))} | {
            name: np.frombuffer(png, np.uint8) for name, png in drawn.items()
        }

    kept = lab.kept(f"landscape-{size}", values, made)
    pictures = {name: kept[name].tobytes() for name in _PICTURES}
    return _Landscape(json.loads(str(kept["results"])), pictures)


def _table(lab: Lab, size: str) -> Found:
    run = _landscape(lab, size)
    theirs = _TABLE_1[size]
    lines = [
        Line(
            name=f"begun at {start}",
            theirs={_DISTANCE: theirs[start]},
            ours={
                _DISTANCE: run.at("bilevel", "distance", start),
                "relative": run.at("bilevel", "distance_relative", start),
                "SSIM with training images": run.at("bilevel", "ssim", start),
                "with as many held out": run.at("bilevel", "held_out_ssim", start),
            },
        )
        for start in mixtures.CORNERS
    ]
    relative = [run.at("bilevel", "distance_relative", s) for s in mixtures.CORNERS]
    fits, ours = _shown(relative), [line.ours[_DISTANCE] for line in lines]
    resembles = run.at("bilevel", "ssim", "noise")
    chance = run.at("bilevel", "held_out_ssim", "noise")
    return Found(
        holds=max(relative) <= FITS and resembles <= chance + 0.02,
        verdict=f"Relative to |theta*|^2 the squared distance of theta is {fits}. From"
        f" noise, images have an SSIM of {resembles:.2f} with training images and"
        f" {chance:.2f} with held-out ones.",
        theirs=_shown([theirs[start] for start in mixtures.CORNERS]),
        ours=_shown(ours),
        lines=lines,
    )


def _shown(values: Sequence[float]) -> str:
    pairs = zip(mixtures.CORNERS, values, strict=True)
    return ", ".join(f"{value:.1e} from {start}" for start, value in pairs)


@measures("runkel/table-1-affine")
def table_1_affine(lab: Lab) -> Found:
    """Distances of theta, of the affine victim."""
    return _table(lab, "affine")


@measures("runkel/table-1-hidden")
def table_1_hidden(lab: Lab) -> Found:
    """Distances of theta, of the victim with a hidden layer of 128 smooth units."""
    return _table(lab, "one_hidden")


@measures("runkel/figures-1-4")
def figures_1_4(lab: Lab) -> Found:
    """Images that end where they began, at the three corners."""
    run = _landscape(lab)
    kinds = ("truth", "partition", "noise")
    ends = {s: {k: run.at("bilevel", k, s) for k in kinds} for s in kinds}
    stays = {start: min(kinds, key=ends[start].__getitem__) for start in kinds}
    return Found(
        holds=all(start == nearest for start, nearest in stays.items()),
        verdict="The bilevel attack ends nearest to "
        + ", ".join(f"{nearest} from {start}" for start, nearest in stays.items())
        + ".",
        theirs="images stay where they began",
        ours=", ".join(f"{start}: {nearest}" for start, nearest in stays.items()),
        lines=[
            Line(name=f"begun at {s}", ours={f"L2 to {k}": ends[s][k] for k in kinds})
            for s in kinds
        ],
        pictures=[
            Picture(run.pictures["images_bilevel.png"], "Ends of the bilevel attack.")
        ],
    )


@measures("runkel/figure-10")
def figure_10(lab: Lab) -> Found:
    """Distances to training images and partition, at all mixtures without noise."""
    run = _landscape(lab)
    lines, right = [], {}
    for method in _METHODS:
        truth = run.along(method, "truth", noise=False)
        part = run.along(method, "partition", noise=False)
        nearer = [t < p for t, p in zip(truth, part, strict=True)]
        right[method] = not any(nearer[:2]) and all(nearer[3:])
        lines += [
            _along(f"{method}: L2 to training images", truth),
            _along(f"{method}: L2 to the partition", part),
        ]
    said = _said(right)
    return Found(
        holds=all(right.values()),
        verdict=f"Images end nearer to whichever has more weight at the start: {said}.",
        theirs="yes, for both attacks",
        ours=said,
        lines=lines,
        pictures=[Picture(run.pictures["maps.png"], "L2 distances at all mixtures.")],
    )


def _curves(lab: Lab, *, noise: bool) -> Found:
    run = _landscape(lab)
    other = "noise" if noise else "partition"
    lines, right = [], {}
    for method in _METHODS:
        truth = run.along(method, "truth", noise=noise)
        rest = run.along(method, other, noise=noise)
        falls = all(b < a for a, b in itertools.pairwise(truth))
        rises = all(b > a for a, b in itertools.pairwise(rest))
        right[method] = falls and rises
        lines += [
            _along(f"{method}: L2 to training images", truth),
            _along(f"{method}: L2 to {other}", rest),
        ]
    said = _said(right)
    return Found(
        holds=all(right.values()),
        verdict="With their share at the start, training images come nearer at every"
        f" step and the {other} goes away: {said}.",
        theirs="yes, for both attacks",
        ours=said,
        lines=lines,
        pictures=[Picture(run.pictures["curves.png"], "L2 distances by the share.")],
    )


@measures("runkel/figure-11")
def figure_11(lab: Lab) -> Found:
    """Distances along the share of training images, without noise."""
    return _curves(lab, noise=False)


@measures("runkel/figure-12")
def figure_12(lab: Lab) -> Found:
    """Distances along the share of noise, without the partition."""
    return _curves(lab, noise=True)


def _said(right: Mapping[str, bool]) -> str:
    return ", ".join(f"{m} {'yes' if ok else 'no'}" for m, ok in right.items())


def _along(name: str, values: list[float]) -> Line:
    by_share = zip(mixtures.SHARES, values, strict=True)
    return Line(name=name, ours={f"{s:g}": v for s, v in by_share})
