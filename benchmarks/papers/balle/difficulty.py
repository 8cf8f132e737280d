"""Why some reconstructions are good and others not: the paper's diagnostics.

All of them look at finished attacks and know the targets; no attack uses them.

embedding        t-SNE of released weights (Figure 8)
gradients        of a target's loss through training: norms, zeros (Figures 21, 22)
losses           of a target under models with and without it (Figure 11)

Source: Balle et al. 2022, Section VI-B and Appendices A, D, L, M.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.metrics import roc_auc_score

from shadow import checks
from shadow.data import Examples
from shadow.factory import Factory
from shadow.precision import highest
from shadow.training import cross_entropy
from shadow.victims import Victim

Thetas = Float32[np.ndarray, "models params"]
# Principal components that t-SNE starts from, as its authors advise.
_COMPONENTS, _PERPLEXITY = 50, 30.0
_MODELS_AT_ONCE = 16


def embedding(weights: Thetas, *, seed: int) -> Float[np.ndarray, "models 2"]:
    """Where t-SNE puts models in the plane, each weight at unit variance first.

    Args:
      weights: theta of each model.
      seed: root of t-SNE's randomness.
    Raises: ValueError: fewer than three models, or weights that don't vary.
    """
    checks.at_least("number of models", len(weights), 3)
    deviation = weights.std(axis=0)
    varies = deviation > 4 * np.finfo(np.float32).eps * np.abs(weights).max(axis=0)
    if not varies.any():
        raise ValueError("No weight varies between the models: nothing to embed.")
    scaled = (weights[:, varies] - weights[:, varies].mean(axis=0)) / deviation[varies]
    count = min(_COMPONENTS, *scaled.shape)
    reduced = PCA(count, random_state=seed).fit_transform(scaled)
    # About the number of neighbours that count; fewer where there are fewer models.
    perplexity = min(_PERPLEXITY, (len(weights) - 1) / 3)
    return TSNE(perplexity=perplexity, random_state=seed).fit_transform(reduced)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gradients:
    """Gradients of targets' losses after each epoch of their own models' training.

    Attributes:
      norms: (targets, epochs), Euclidean norms of the loss's gradient.
      layers: names of the victim's arrays.
      zeros: (layers, epochs), share of numbers that are exactly zero, over targets.
    """

    norms: Float[np.ndarray, "targets epochs"]
    layers: tuple[str, ...]
    zeros: Float[np.ndarray, "layers epochs"]


def gradients(factory: Factory, targets: Examples) -> Gradients:
    """Train each target's model, and look at its gradient after every epoch.

    Args:
      factory: A, with the fixed set.
      targets: z of each model.
    Raises: ValueError: no targets.
    """
    checks.at_least("number of targets", len(targets), 1)
    descent = factory.descent
    victim = descent.victim
    fixed = jnp.asarray(factory.fixed.images), jnp.asarray(factory.fixed.labels)
    drawn = factory.draw  # what is shared is drawn here, not while it is traced

    @highest
    def one(row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        target, draw = row[:2], drawn(row[2])
        epoch = descent.stepper(fixed, target, draw.key, draw.noise_key)
        params = victim.unflatten(jnp.asarray(draw.start))

        def step(state: Any, number: Array) -> tuple[Any, tuple[Array, Array]]:
            state = epoch(state, number)
            slope = jax.grad(descent.target_loss)(state[0], target)
            flat = victim.flatten(slope)
            zeros = [jnp.mean(flat[p.start : p.stop] == 0) for p in victim.layout]
            return state, (jnp.linalg.norm(flat), jnp.stack(zeros))

        state = params, descent.optimise.init(params)
        return jax.lax.scan(step, state, jnp.arange(descent.epochs))[1]

    rows = targets.images, targets.labels, np.arange(len(targets), dtype=np.int32)
    every = jax.jit(lambda *rows: jax.lax.map(one, rows, batch_size=_MODELS_AT_ONCE))
    norms, zeros = (np.asarray(found, np.float64) for found in every(*rows))
    return Gradients(
        norms=norms,
        layers=tuple(part.name for part in victim.layout),
        zeros=zeros.mean(axis=0).T,
    )


def auc(seen: np.ndarray, unseen: np.ndarray) -> float:
    """How well losses tell models that trained on a target; 0.5 is not at all."""
    truth = np.repeat([1, 0], [len(seen), len(unseen)])
    return float(roc_auc_score(truth, -np.concatenate([seen, unseen])))


def losses(
    factory: Factory, target: Examples, others: Examples
) -> dict[str, np.ndarray]:
    """Train one model on the target and one without it, for each of some other points.

    Without it, a model gets one of the others in its place; with it, the target takes
    the place of the last point of D_-, and one of the others is there as well. So both
    kinds scatter even where A is deterministic.

    Args:
      factory: A; its initialisation decides what is compared.
      target: the one example whose loss is taken.
      others: a model of each kind for each of them.
    Returns: "seen" and "unseen", (models,) each: losses under models that trained on
      the target, or on another point.
    """
    seen = factory.fixed.take(slice(0, -1)).joined(target)
    with_it = dataclasses.replace(factory, fixed=seen).train(others)
    ids = np.arange(len(others), 2 * len(others))  # randomness of their own
    without_it = factory.train(others, ids=ids)
    of = functools.partial(target_losses, factory.descent.victim, examples=target)
    return {"seen": of(with_it)[:, 0], "unseen": of(without_it)[:, 0]}


def target_losses(
    victim: Victim, weights: Float32[np.ndarray, "models params"], examples: Examples
) -> Float[np.ndarray, "models examples"]:
    """Cross-entropy of each example under each model, in nats."""
    losses = _losses(victim, jnp.asarray(weights), examples.images, examples.labels)
    return np.asarray(losses, np.float64)


@functools.partial(jax.jit, static_argnums=0)
@highest
def _losses(victim: Victim, thetas: Array, images: Array, labels: Array) -> Array:
    def one(theta: Array) -> Array:
        return cross_entropy(victim.apply(victim.unflatten(theta), images), labels)

    return jax.lax.map(one, thetas, batch_size=_MODELS_AT_ONCE)
