"""Compare users' reconstructions with the true records: `informed.compare`.

Each guess is scored beside the nearest neighbour: the record nearest to the target, in
a gallery that the user gives or among the other targets. Users' scripts call it, and
`benchmarks/reconstructors.py`; runs and audits use `judging`. It touches no file.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from informed.metrics.pixels import Rate, mse, nearest_neighbours, success_rate
from shadow import checks, copies
from shadow.data import Examples
from shadow.threat import Reconstruction

_RESAMPLES = 2000  # of the bootstrap
_HEADER = ("", "MSE, 95 %", "failed", "labels right", "certified", "nearer than NN")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparedGuess:
    """The scores of one reconstruction of all targets; None: there is none.

    Attributes:
      failed: number of guesses with NaN or infinity. They count as failures in `nearer`
        and never as certified; `mse` leaves them out.
      mse: mean squared error per pixel, averaged over the guesses that didn't fail.
      mse_interval: its 95 % interval by the percentile bootstrap.
      labels: share of right labels, with the Clopper-Pearson interval.
      certified: number of guesses that the attack itself certifies as exact.
      nearer: share of targets whose guess is nearer than their nearest neighbour, with
        such an interval too.
    """

    failed: int
    mse: float | None
    mse_interval: tuple[float, float] | None
    labels: Rate | None
    certified: int | None
    nearer: Rate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Reconstructions side by side; `print` it for the table.

    Attributes:
      targets: number of targets.
      names, guesses: names and scores of reconstructions, in the arguments' order.
      oracle_mse: mean squared error of the nearest neighbour, chosen with knowledge of
        the target.
      gallery: the records that neighbours are drawn from, in words.
    """

    targets: int
    names: tuple[str, ...]
    guesses: tuple[ComparedGuess, ...]
    oracle_mse: float
    gallery: str

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [_HEADER]
        for name, guess in zip(self.names, self.guesses, strict=True):
            error = "-" if guess.mse is None else f"{guess.mse:.3g}"
            if guess.mse_interval is not None:
                low, high = guess.mse_interval
                error += f" ({low:.3g} to {high:.3g})"
            certified = "-" if guess.certified is None else str(guess.certified)
            labels = "-" if guess.labels is None else _share(guess.labels)
            row = (name, error, str(guess.failed), labels, certified)
            rows.append((*row, _share(guess.nearer)))
        rows.append(("nearest neighbour", f"{self.oracle_mse:.3g}"))
        below = f"{self.targets} targets; nearest neighbours from {self.gallery}"
        return f"{aligned(rows)}\n{below}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines with columns, of which the first row has all.

    Rows of two cells are a name and a sentence, which doesn't set a column's width.
    """
    full = [row for row in rows if len(row) > 2]
    columns = range(len(rows[0]))
    widths = [max(len(row[i]) for row in full if i < len(row)) for i in columns]
    widths[0] = max(len(row[0]) for row in rows)
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False))
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def compare(
    targets: Examples,
    *guesses: Reconstruction,
    gallery: Examples | None = None,
    **named: Any,
) -> Comparison:
    """Return scores of reconstructions of the same targets, beside an oracle's.

        print(informed.compare(targets, kernel=guess, inversion=exact, gallery=public))

    Args:
      targets: the true records.
      guesses: reconstructions by attacks, one guess per target, in the same order.
      gallery: records for the nearest-neighbour oracle; None: the other targets.
      named: more reconstructions, by the names that the table shows.
    Raises: ValueError: no guesses, guesses of another type, number or shape, no
      neighbour, or a gallery that contains a target.
    """
    by_name = {f"guess {i}": guess for i, guess in enumerate(guesses, 1)} | named
    if not by_name:
        raise checks.FieldError("guesses", "Expected at least one of {}, got none.")
    for title, guess in by_name.items():
        if not isinstance(guess, Reconstruction):
            raise checks.FieldError(
                title,
                f"Expected {{}} to be a Reconstruction, got {type(guess).__name__}. Of"
                " images make one: shadow.Reconstruction(images=...).",
            )
        for name in ("images", "labels", "certified"):
            values = getattr(guess, name)
            if values is not None and len(values) != len(targets):
                raise checks.FieldError(
                    f"{title}.{name}",
                    f"Expected one of {{}} a target, {len(targets)}, got"
                    f" {len(values)}. Attack the same targets.",
                )
    images, source = targets.images, "the other targets"
    if gallery is not None:
        if not len(gallery) or gallery.image_shape != targets.image_shape:
            raise checks.FieldError(
                "gallery",
                f"Expected {{}} with records of shape {targets.image_shape}, got"
                f" {len(gallery)} of shape {gallery.image_shape}.",
            )
        if copies.among(images, gallery.images).any():
            raise checks.FieldError(
                "gallery",
                "Expected a {} without the targets; a nearest neighbour that is the"
                " target itself is no baseline.",
            )
        source = f"a gallery of {len(gallery)} records"
        oracle = nearest_neighbours(images, gallery.images).mse
    elif len(targets) < 2:
        raise checks.FieldError(
            "gallery", "Expected {} where there are no other targets, got None."
        )
    else:
        errors = []
        for one in images:
            others = images[(images != one[None]).any(axis=(1, 2, 3))]
            if not len(others):
                raise checks.FieldError(
                    "gallery", "Expected a {}, since all targets are equal."
                )
            errors.append(nearest_neighbours(one[None], others).mse)
        oracle = np.concatenate(errors)
    return Comparison(
        targets=len(targets),
        names=tuple(by_name),
        guesses=tuple(_compared(targets, g, oracle) for g in by_name.values()),
        oracle_mse=float(oracle.mean()),
        gallery=source,
    )


def _compared(
    targets: Examples, guess: Reconstruction, oracle: np.ndarray
) -> ComparedGuess:
    """Return one reconstruction's scores; `oracle` has the neighbours' errors."""
    errors = mse(targets.images, guess.images)
    finite = np.isfinite(errors)
    kept, interval = errors[finite], None
    if len(kept) > 1:
        rng = np.random.default_rng(0)
        means = [rng.choice(kept, len(kept)).mean() for _ in range(_RESAMPLES)]
        low, high = np.quantile(means, (0.025, 0.975))
        interval = (float(low), float(high))
    certified, labels = guess.certified, guess.labels
    right = None if labels is None else success_rate(labels == targets.labels)
    return ComparedGuess(
        failed=int(np.sum(~finite)),
        mse=float(kept.mean()) if len(kept) else None,
        mse_interval=interval,
        labels=right,
        certified=None if certified is None else int(np.sum(certified & finite)),
        nearer=success_rate(errors < oracle),  # False where the error is NaN
    )


def _share(rate: Rate) -> str:
    """Format a rate with its interval in percent."""
    low, high = 100 * rate.low, 100 * rate.high
    return f"{rate.successes} of {rate.trials} ({low:.0f} to {high:.0f} %)"
