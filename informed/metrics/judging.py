"""Decide whether attacks succeeded: compare guesses with the truth and with baselines.

Two functions decide, each with its own definition of success. Both see the targets, and
neither touches a file:

judge     a `Trial` of an attack: a row of the table of an audit (`audit_state`) or of
          `informed report`. Success is `Verdict.read`.
compared  an attack of a run: a row of results.json (`evaluation`). `success` states its
          mean error in the words of Balle et al.'s tables.

For `judge`, `baselines` are guesses without the release. Some are oracles, chosen with
knowledge of the target, so no adversary could make them: the nearest public record, and
for tables each column guessed from the target's other columns.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from informed import metrics
from informed.play import Trial
from shadow.data import Examples

# A guess is exact up to this MSE, in units of the squared spread of the records: an
# error of a thousandth of the spread.
EXACT = 1e-6
# Records are stored in float32, so a few units in the last place count as no error.
_ROUNDING = 4 * np.finfo(np.float32).eps / EXACT**0.5
NEAREST, IMPUTED = "nearest public record", "imputed"
# Examples with a shorter side count as rows of a table, whose height is 1.
_SMALLEST_WINDOW = 3
_ABOUT = ("name", "about", "sees", "knows", "applies", "why_not", "trainings", "remedy")
_MEASURED = (
    *("targets", "finished", "mse_mean", "mse_median", "labels_named", "labels_right"),
    *("success", "exact", "certified", "certified_wrong"),
)


@dataclasses.dataclass(frozen=True, eq=False)
class Baseline:
    """A guess at every target without the release.

    Attributes:
      about: the knowledge that it needs.
      images, mse: (targets, ...), the guesses, and their mean squared errors.
      oracle: whether it is chosen with knowledge of the target.
    """

    name: str
    about: str
    images: np.ndarray
    mse: Float[np.ndarray, " targets"]
    oracle: bool


def baselines(
    targets: Examples, pool: Examples, *, groups: np.ndarray | None = None
) -> list[Baseline]:
    """Return all guesses without the release; the last ones are oracles.

    Args:
      pool: all records that are known to everyone.
      groups: (features,), the table column of each feature; None: images.
    """
    shape = targets.images.shape
    neighbours = metrics.nearest_neighbours(targets.images, pool.images)
    public = neighbours.copies
    notes = ["no release; chosen with knowledge of the target"]
    for what, mask in (
        ("are public already", public["exact"]),
        ("have a near copy among the public records", public["near"]),
    ):
        if mask.any():
            notes.append(f"{int(mask.sum())} of {len(mask)} targets {what}")
    nearest = pool.images[neighbours.index]
    mean, median = pool.images.mean(axis=0), np.median(pool.images, axis=0)
    of_label = pool.means(targets.labels)
    guesses: list[tuple[str, str, np.ndarray, bool]] = [
        ("mean record", "no release; public records", mean, False),
        ("median record", "no release; public records", median, False),
        ("mean of the label", "no release; the label", of_label, False),
        (NEAREST, "; ".join(notes), nearest, True),
    ]
    if groups is not None:
        flat = pool.images.reshape(len(pool), -1).astype(np.float64)
        imputed = _imputed(flat, targets.images.reshape(len(targets), -1), groups)
        about = "no release; each column from all other columns of the target"
        guesses.append((IMPUTED, about, imputed.reshape(shape), True))
    rows = []
    for name, about, guess, oracle in guesses:
        images = np.asarray(np.broadcast_to(guess, shape), np.float32)
        mse = metrics.mse(targets.images, images)
        rows.append(Baseline(name, about, images, mse, oracle))
    return rows


def _imputed(pool: np.ndarray, targets: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return guesses of each column from the others, by ridge regression on the pool.

    The features of one column are left out together: the words of a column exclude each
    other, so that each follows from the rest.
    """
    mean = pool.mean(axis=0)
    if len(np.unique(groups)) == 1:
        return np.broadcast_to(mean, targets.shape)
    centred, asked = pool - mean, targets.astype(np.float64) - mean
    # One inverse of the covariance gives the regressions of all columns, by blocks.
    inverse = np.linalg.inv(centred.T @ centred + 1e-3 * np.eye(pool.shape[1]))
    pulled = asked @ inverse
    guesses = np.empty_like(asked)
    for group in np.unique(groups):
        columns = groups == group
        block = inverse[np.ix_(columns, columns)]
        shift = np.linalg.solve(block, pulled[:, columns].T).T
        guesses[:, columns] = asked[:, columns] - shift
    return np.clip(guesses + mean, 0, 1)


def summary(baseline: Baseline) -> dict[str, Any]:
    """Return a baseline's row in the comparison of attacks."""
    return {
        "name": baseline.name,
        "about": baseline.about,
        "oracle": baseline.oracle,
        "mse_mean": float(baseline.mse.mean()),
        "mse_median": float(np.median(baseline.mse)),
    }


def thresholds(guesses: list[Baseline]) -> Float[np.ndarray, " targets"]:
    """Return the MSE that an attack must beat: the best oracle's at each target."""
    return np.min([guess.mse for guess in guesses if guess.oracle], axis=0)


def spread(
    pool: Examples, targets: np.ndarray
) -> Float[np.ndarray, "targets features"]:
    """Return the unit in which the error of each feature of each target is counted.

    It is the range of uniform values of the same spread. For images the spread is the
    variance, averaged over pixels, and the unit about 1 for ordinary images. For tables
    it is, column by column, the median distance from the median, among the values that
    differ from it. If a target is farther than that from its column's median, the unit
    is this distance: an error of a thousandth of it means that the value is known, even
    if the other values lie close together.
    """
    flat = pool.images.reshape(len(pool), -1).astype(np.float64)
    asked = targets.reshape(len(targets), -1).astype(np.float64)
    if min(targets.shape[1:3]) >= _SMALLEST_WINDOW:  # images, not rows of a table
        width = min(1.0, np.sqrt(12 * flat.var(axis=0).mean()))
        return np.full(asked.shape, width if width > 0 else 1.0)
    median = np.median(flat, axis=0)
    apart = np.abs(flat - median)
    # A median ignores outliers; values equal to the column's median are masked.
    away = np.ma.median(np.ma.masked_equal(apart, 0), axis=0).filled(1.0)
    widths = np.maximum(np.minimum(4 * away, 1.0), np.abs(asked - median))
    return np.maximum(widths, _ROUNDING * np.abs(asked))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Verdict:
    """The verdict on an attack's guesses, an entry per attempted target.

    Attributes:
      mse: mean squared errors; infinite if there is no guess.
      right: whether the guess equals the target, to `EXACT` of the records' spread.
      exact: whether the guess is right, and nearer than the baselines. The imputed
        baseline, and public copies equal to the target, don't count here.
      read: success: the guess is finished, and exact or nearer than every oracle.
    """

    mse: Float[np.ndarray, " attempted"]
    right: Bool[np.ndarray, " attempted"]
    exact: Bool[np.ndarray, " attempted"]
    read: Bool[np.ndarray, " attempted"]


def verdict(
    trial: Trial, targets: Examples, pool: Examples, guesses: list[Baseline]
) -> Verdict | None:
    """Return the verdict on an attack's guesses; None: the attack wasn't played.

    The pool is all records that are known to everyone.
    """
    if trial.images is None:
        return None
    count = len(trial.images)
    truth, images = targets.images[:count], np.clip(trial.images, 0, 1)
    mse = metrics.mse(truth, images)
    mse = np.where(np.isfinite(mse), mse, np.inf)
    apart = images.reshape(count, -1).astype(np.float64) - truth.reshape(count, -1)
    # False where the guess isn't finite.
    right = np.mean((apart / spread(pool, truth)) ** 2, axis=1) <= EXACT
    # An exact copy doesn't count, because it equals the target as an exact guess does.
    # Imputed guesses don't count either, because they need the target.
    reached = np.full(count, np.inf)
    for guess in guesses:
        error = guess.mse[:count]
        if guess.name == NEAREST:
            error = np.where(error > 0, error, np.inf)
        if guess.name != IMPUTED:
            reached = np.minimum(reached, error)
    exact = right & (mse < reached)
    read = exact | (mse < thresholds(guesses)[:count])
    done = np.isfinite(mse) if trial.finished is None else trial.finished
    return Verdict(mse=mse, right=right, exact=exact, read=done & read)


def judge(
    trial: Trial, targets: Examples, pool: Examples, guesses: list[Baseline]
) -> dict[str, Any]:
    """Return an attack's row of the table: JSON-able, None for unknown values.

    It has what the attack saw, knew and cost, and `_MEASURED`: success, exact, mse_mean
    and mse_median of finished targets, the rest of attempted ones. success and exact
    are None if no target was finished, because nothing follows from that.
    """
    planned = trial.planned or (0 if trial.images is None else len(trial.images))
    about = {name: getattr(trial, name) for name in _ABOUT} | {
        "tried": trial.images is not None,
        "seconds": round(trial.seconds, 2),
        "planned": planned,
        "needs_seconds": trial.needs,
    }
    held = verdict(trial, targets, pool, guesses)
    if held is None:
        return about | dict.fromkeys(_MEASURED)
    assert trial.finished is not None
    count, done = len(held.mse), trial.finished
    # A finished guess with NaN or infinity is a failure.
    mse, good = held.mse, done & np.isfinite(held.mse)
    labels, certified = trial.labels, trial.certified
    # Unfinished targets aren't failures: more time might have succeeded.
    rates = {
        name: dataclasses.asdict(metrics.success_rate(succeeded[done]))
        if done.any()
        else None
        for name, succeeded in (("success", held.read), ("exact", held.exact))
    }
    measured = dict.fromkeys(_MEASURED) | {"targets": count, **rates}
    measured["finished"] = int(done.sum())
    if good.any():
        measured["mse_mean"] = float(mse[good].mean())
        measured["mse_median"] = float(np.median(mse[good]))
    if labels is not None:
        measured["labels_named"] = int((labels >= 0).sum())
        measured["labels_right"] = int((labels == targets.labels[:count]).sum())
    if certified is not None:
        measured["certified"] = int(certified.sum())
        measured["certified_wrong"] = int((certified & ~held.right).sum())
    return about | measured


def success(mse: float, oracle: float, first_percentile: float) -> str:
    """Return the entry of column "Success" in the paper's tables, from a mean error.

    All are averages over targets: the attack's mean squared error, that of the nearest
    image that the adversary already has, and the first percentile of all these images.

    Source: Balle et al. 2022, Section V-B d), Figure 3, Table II.
    """
    if mse < oracle:
        return "oracle"
    return "first percentile" if mse < first_percentile else "no"


def compared(
    guess: Mapping[str, np.ndarray],
    images: np.ndarray,
    labels: np.ndarray,
    neighbours: metrics.Neighbours,
    *,
    known: int = 0,
) -> dict[str, Any]:
    """Return errors and rates of one attack of a run, for its row of results.json.

    Args:
      guess: the attack's arrays by name: images, and perhaps labels, certified.
      images, labels: the truth.
      neighbours: distances of the same targets to the images that the adversary has.
      known: number of rows of pixels that this adversary knew.
    """
    count = len(guess["images"])
    mse = metrics.mse(images[:count], guess["images"])
    certified = guess.get("certified")
    error = float(mse.std(ddof=1) / count**0.5) if count > 1 else None
    oracle = float(neighbours.mse[:count].mean())
    first = float(neighbours.percentiles[:count, 0].mean())
    row = {
        "targets": count,
        "mse": float(mse.mean()),
        "mse_standard_error": error,
        "mse_median": float(np.median(mse)),
        "mse_largest": float(mse.max()),
        "mae": float(metrics.mae(images[:count], guess["images"]).mean()),
        "labels_right": None,
        "certified": None if certified is None else int(certified.sum()),
        "closer_than_oracle": dataclasses.asdict(
            metrics.success_rate(mse < neighbours.mse[:count])
        ),
        "nn_oracle_mse": oracle,
        "success": success(float(mse.mean()), oracle, first),
    }
    if "labels" in guess:
        row["labels_right"] = int((guess["labels"] == labels[:count]).sum())
    if known:  # known pixels have no error; the others show what was inferred
        rest = metrics.mse(images[:count, known:], guess["images"][:, known:])
        row |= {"known_rows": known, "mse_of_unknown": float(rest.mean())}
    return row
