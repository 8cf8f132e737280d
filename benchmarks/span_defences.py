"""What stops the reading off the span: accuracy against records read, a line each.

    python -m benchmarks.span_defences --targets=20 --seed=0 > defences.jsonl

defence, amount     "rounding" to a number of bits (53 is none); "noise" on the
                    weights, in deviations of theirs; "DP-GD" with a noise multiplier
accuracy            on 400 records of which no model saw any, the mean over targets
exact, certified    of the targets, as in `benchmarks.span`
first               of the targets: first of 1,000 others in a gallery, by how much of
                    the weights lies along what a record has off the span
epsilon, bound      of DP-GD: epsilon at delta = 1e-5 (a record's gradient zeroed out),
                    and the bound on `first` (`dp.rero_bound`, kappa = 1 / 1,001)

Models: LogisticRegression at its defaults for rounding and noise; logistic regression
by full-batch gradient descent from zero, 30 steps, gradients of norm 1 at most, for
DP-GD, for which alleles are counted from the public frequencies. Data: genotypes. The
adversary knows the deviation of the noise, but not the numbers that were drawn.
"""

import argparse
import json
import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import special
from sklearn.linear_model import LogisticRegression

import dp
from benchmarks import span_data
from informed.attacks import span
from informed.attacks.impossible import ReconstructionImpossibleError
from informed.attacks.span.basis import Basis

_KNOWN, _TEST, _GALLERY = 400, 400, 1000
_STEPS = 30
_BITS = (53, 24, 11, 8, 6, 4, 3, 2)
_NOISES = (1e-6, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0)
_MULTIPLIERS = (0.0, 0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0)
# Learning rate of DP-GD, chosen without noise on seeds of its own for accuracy.
_RATE = 1.0


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels: known ones, the target, test, gallery."""
    many = _KNOWN + _TEST + _GALLERY
    draw = span_data.genotypes(many, 2000, blocks=True)
    rows, labels, _ = draw(np.random.default_rng(seed))
    return rows, (labels > np.median(labels)).astype(np.int64)


def private(
    known: Any, labels: np.ndarray, multiplier: float, rate: float, seed: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Weights (outputs, features), classes, and the deviation of noise on them."""
    rng = np.random.default_rng(seed)
    classes = np.unique(labels)
    wanted = (labels[:, None] == classes).astype(np.float64)
    lengths = np.sqrt(np.asarray((known * known).sum(axis=1)).ravel())
    weights = np.zeros((len(classes), known.shape[1]))
    count = known.shape[0]
    for _ in range(_STEPS):
        missed = special.softmax(known @ weights.T, axis=1) - wanted
        size = np.linalg.norm(missed, axis=1) * lengths
        clipped = missed / np.maximum(size, 1.0)[:, None]
        gradient = np.asarray((known.T @ clipped).T)
        noise = multiplier * rng.standard_normal(weights.shape)
        weights -= rate * (gradient + noise) / count
    deviation = rate * multiplier / count * np.sqrt(_STEPS)
    return weights, classes, deviation


def read(
    weights: np.ndarray,
    found: Any,
    gallery: Any,
    deviation: float | None,
    centre: np.ndarray | None,
) -> dict[str, bool]:
    """The target from weights, D_- and a gallery.

    Where training took a centre off the rows, that is known as well.
    """
    known, target = found[:_KNOWN], found[_KNOWN : _KNOWN + 1]
    row = target[0]
    spanning = known if centre is None else np.vstack([known, centre])
    basis = Basis.of(spanning)
    off = basis.off(weights / basis.scale)
    candidates = np.vstack([target, gallery])
    apart = basis.off(candidates / basis.scale)
    size = np.linalg.norm(apart, axis=1)
    # One that lies in the span has no direction.
    size = np.where(size > 1e-6, size, np.inf)
    along = np.linalg.norm(off @ apart.T, axis=0) / size
    first = bool(along.argmax() == 0)
    try:
        direction = span.read(weights, spanning, deviation=deviation or None)
    except ReconstructionImpossibleError:
        return {"first": first, "exact": False, "certified": False}
    completed = span.complete(direction, known)
    exact = completed is not None and span_data.close(completed, row)
    certified = completed is not None and completed.certified
    if certified and not exact:
        raise AssertionError("a wrong certificate")
    return {"first": first, "exact": exact, "certified": certified}


def rounded(weights: np.ndarray, bits: int) -> np.ndarray:
    """To evenly spaced numbers where bits are few, else to a significand of so many."""
    if bits <= 8:
        step = np.abs(weights).max() / (2 ** (bits - 1) - 1)
        return np.round(weights / step) * step
    mantissa, exponent = np.frexp(weights)
    return np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits)


def played(args: Any) -> Iterator[dict[str, Any]]:
    """All lines."""
    tallies: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for target in range(args.targets):
        seed = span_data.SEEDS * (args.seed + 5) + target
        found, labels = drawn(seed)
        trained = slice(0, _KNOWN + 1)
        test = slice(_KNOWN + 1, _KNOWN + 1 + _TEST)
        gallery = found[_KNOWN + 1 + _TEST :]
        rng = np.random.default_rng(seed)

        def tried(
            key: tuple[str, float],
            weights: np.ndarray,
            scores: np.ndarray,
            classes: np.ndarray,
            deviation: float | None = None,
            centre: np.ndarray | None = None,
            *,
            here: Any = (found, labels, test, gallery),
        ) -> None:
            every, names, held, others = here
            if scores.shape[1] == 1:
                scores = np.hstack([-scores, scores])
            right = classes[scores.argmax(axis=1)] == names[held]
            line = read(weights, every, others, deviation, centre)
            tallies.setdefault(key, []).append({"accuracy": right.mean()} | line)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LogisticRegression().fit(found[trained], labels[trained])
        for bits in _BITS:
            weights = rounded(model.coef_, bits)
            scores = found[test] @ weights.T + model.intercept_
            tried(("rounding", bits), weights, scores, model.classes_)
        for share in _NOISES:
            deviation = share * model.coef_.std()
            weights = model.coef_ + deviation * rng.standard_normal(model.coef_.shape)
            scores = found[test] @ weights.T + model.intercept_
            tried(("noise", share), weights, scores, model.classes_, deviation)
        centre = gallery.mean(axis=0)
        shifted = found - centre
        for multiplier in _MULTIPLIERS:
            weights, classes, deviation = private(
                shifted[trained], labels[trained], multiplier, _RATE, seed
            )
            scores = shifted[test] @ weights.T
            tried(("DP-GD", multiplier), weights, scores, classes, deviation, centre)
    for (defence, amount), lines in tallies.items():
        line: dict[str, Any] = {"defence": defence, "amount": amount}
        line["accuracy"] = round(
            float(np.mean([each["accuracy"] for each in lines])), 3
        )
        for name in ("exact", "certified", "first"):
            line[name] = sum(bool(each[name]) for each in lines)
        line["targets"] = len(lines)
        if defence == "DP-GD" and amount:
            run = dp.Gaussian(
                noise_multiplier=amount, steps=_STEPS, relation="zero_out"
            )
            bound = dp.rero_bound(run, kappa=1 / (gallery.shape[0] + 1))
            line["epsilon"] = math.ceil(100 * run.epsilon(1e-5)) / 100
            line["bound"] = math.ceil(1e4 * float(bound.gamma)) / 1e4
        yield line


def main() -> None:
    """Print one JSON line a defence and amount."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for line in played(args):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
