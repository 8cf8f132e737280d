"""Heads on frozen encoders, audited as a user would: one JSON line each.

    python -m benchmarks.heads [--encoder=minilm] [--head=default] [--targets=20]

Two encoders that packages ship (`benchmarks.encoders`), five heads, two sizes: half as
many known records as an embedding has dimensions, and twice as many. Each line is one
`informed.audit(head, embeddings)`; the gallery is all other records, at least 10,000.
A line has: encoder, head, known (records), dimensions, targets; held_against, the
attacks that finished any target; best, that of them which read most exactly, or else
put most of them first in the gallery. Of `best`: finished, exact, certified,
first_in_gallery (of `targets`), runs (trainings), seconds, embedding_error (distance
between guess and embedding over the embedding's length, median of the finished ones)
and in_ranges (root mean square of a dimension, in its range over all records, median of
the targets that were finished). Of training with the gallery:
first_by_training and certified_by_training of tried_by_training, in
seconds_by_training. wrong_certificates counts all attacks and that; baseline_first has
no release. accuracy is the head's, on public records; minutes the whole audit's.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import informed
from benchmarks import encoders


def default(rows: np.ndarray, labels: np.ndarray, seed: int) -> Any:
    """scikit-learn's LogisticRegression as it comes."""
    from sklearn.linear_model import LogisticRegression

    del seed
    return LogisticRegression().fit(rows, labels)


def converged(rows: np.ndarray, labels: np.ndarray, seed: int) -> Any:
    """The same at its optimum, which L-BFGS doesn't reach whatever its tolerance.

    It also stops where the objective changes by less than 64 roundings; then rows that
    are off by 1e-5 of their length explain the weights as well.
    """
    from sklearn.linear_model import LogisticRegression

    del seed
    solver = LogisticRegression(solver="newton-cholesky", tol=1e-10, max_iter=1000)
    return solver.fit(rows, labels)


def svc(rows: np.ndarray, labels: np.ndarray, seed: int) -> Any:
    """LinearSVC as it comes, its seed told."""
    from sklearn.svm import LinearSVC

    return LinearSVC(random_state=seed).fit(rows, labels)


def _adamw(rows: Any, labels: Any, key: Any, params: Any, logits: Callable) -> Any:
    """30 epochs of AdamW in mini-batches of 32, whose order the key draws."""
    rows, labels = jnp.asarray(rows), jnp.asarray(labels)
    optimiser = optax.adamw(3e-3, weight_decay=1e-2)
    epochs = jax.random.split(key, 30)
    orders = jax.vmap(lambda each: jax.random.permutation(each, len(rows)))(epochs)
    size = min(32, len(rows))
    batches = orders[:, : len(rows) // size * size].reshape(-1, size)

    def loss(params: Any, chosen: Any) -> Any:
        given = logits(params, rows[chosen])
        return optax.softmax_cross_entropy_with_integer_labels(
            given, labels[chosen]
        ).mean()

    def step(state: Any, chosen: Any) -> tuple[Any, None]:
        params, moments = state
        change, moments = optimiser.update(
            jax.grad(loss)(params, chosen), moments, params
        )
        return (optax.apply_updates(params, change), moments), None

    return jax.lax.scan(step, (params, optimiser.init(params)), batches)[0][0]


def adamw_linear(rows: Any, labels: Any, key: Any) -> Any:
    """A linear head by AdamW, begun at zero."""
    params = {"w": jnp.zeros((rows.shape[1], 10)), "b": jnp.zeros(10)}
    return _adamw(
        rows, labels, key, params, lambda params, x: x @ params["w"] + params["b"]
    )


def adamw_hidden(rows: Any, labels: Any, key: Any) -> Any:
    """A hidden layer of 32 units by AdamW."""
    one, two, order = jax.random.split(key, 3)
    glorot = jax.nn.initializers.glorot_uniform()
    params = {
        "w": glorot(one, (rows.shape[1], 32)),
        "b": jnp.zeros(32),
        "v": glorot(two, (32, 10)),
        "c": jnp.zeros(10),
    }

    def logits(params: Any, x: Any) -> Any:
        return jax.nn.gelu(x @ params["w"] + params["b"]) @ params["v"] + params["c"]

    return _adamw(rows, labels, order, params, logits)


HEADS: dict[str, Callable] = {
    "default": default,
    "converged": converged,
    "svc": svc,
    "adamw_linear": adamw_linear,
    "adamw_hidden": adamw_hidden,
}


def measured(encoder: str, head: str, known: int, args: Any) -> dict[str, Any]:
    """One line."""
    records = encoders.embedded(encoder, args.out)
    started = time.monotonic()
    audit = informed.audit(
        HEADS[head],
        str(args.out / f"{encoder}.npz"),
        fixed=known,
        targets=args.targets,
        minutes=args.minutes,
        seed=args.seed,
    )
    name = f"{encoder}-{head}-{known}"
    for form in ("html", "json"):
        audit.save(args.out / f"{name}.{form}")
    return {
        "encoder": encoder,
        "head": head,
        "known": known,
        "dimensions": records["embeddings"].shape[1],
        "targets": args.targets,
        **summary(audit),
        "minutes": round((time.monotonic() - started) / 60, 2),
    }


def summary(audit: Any) -> dict[str, Any]:
    """What a line has of an audit of embeddings."""
    found = audit.values
    attacks = [row for row in found["attacks"] if row["tried"] and row["finished"]]
    by_training = next((r for r in attacks if r["name"] == "gallery"), None)
    by_training = by_training or dict.fromkeys(("certified", "seconds"))
    best = min(
        (
            row
            for row in attacks
            if row["name"] in audit.pictures["guesses"] and row["name"] != "gallery"
        ),
        key=lambda row: (
            -row["exact"]["successes"],
            -row["gallery"]["first"],
            np.inf if row["mse_median"] is None else row["mse_median"],
        ),
        default=None,
    )
    free = [row["gallery"]["first"] for row in found["baselines"] if row.get("gallery")]
    line: dict[str, Any] = {
        "held_against": [row["name"] for row in attacks],
        "best": None,
        "wrong_certificates": sum(row["certified_wrong"] or 0 for row in attacks),
        "first_by_training": (by_training.get("exact") or {}).get("successes"),
        "tried_by_training": by_training.get("finished", 0),
        "certified_by_training": by_training["certified"],
        "seconds_by_training": by_training["seconds"],
        "gallery": found["subject"]["fixed"] + found["subject"]["public"] + 1,
        "baseline_first": max(free, default=None),
        "accuracy": found["subject"]["accuracy"],
    }
    if best is None:
        return line
    middle = best["mse_median"]
    return line | {
        "best": best["name"],
        "finished": best["finished"],
        "embedding_error": _relative(audit.pictures, best["name"]),
        "in_ranges": None if middle is None else float(np.sqrt(middle)),
        "exact": best["exact"]["successes"],
        "certified": best["certified"],
        "first_in_gallery": best["gallery"]["first"],
        "runs": best["trainings"],
        "seconds": best["seconds"],
    }


def _relative(pictures: Mapping[str, Any], attack: str) -> float:
    """Median over the finished targets of |guess - embedding| / |embedding|."""
    table = pictures["table"]
    guesses = table.features(np.asarray(pictures["guesses"][attack], np.float64))
    truth = table.features(np.asarray(pictures["targets"].images, np.float64))
    truth = truth[: len(guesses)]
    apart = np.linalg.norm(guesses - truth, axis=1) / np.linalg.norm(truth, axis=1)
    return float(np.nanmedian(apart))


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--encoder", choices=encoders.ENCODERS)
    parser.add_argument("--head", choices=HEADS)
    parser.add_argument("--known", choices=("half", "twice"))
    parser.add_argument("--targets", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=20.0, help="of each audit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/heads"))
    args = parser.parse_args()
    for encoder in [args.encoder] if args.encoder else encoders.ENCODERS:
        records = encoders.embedded(encoder, args.out)
        dimensions = records["embeddings"].shape[1]
        sizes = {"half": dimensions // 2, "twice": 2 * dimensions}
        for head in [args.head] if args.head else HEADS:
            for size, known in sizes.items():
                if args.known in (None, size):
                    line = measured(encoder, head, known, args)
                    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
