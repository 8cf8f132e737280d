"""The reconstruction and the membership game: play an attack, return error or success.

These are Algorithms 1 and 2 of Balle et al. 2022, so scores can be set beside the
paper's. Users call both, and `benchmarks/papers/balle/membership.py` the second. A game
trains one model and writes no file. A is the training algorithm, D_- its known records,
z the target, theta the weights.
"""

import dataclasses
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from shadow import copies
from shadow.data import Examples
from shadow.factory import Factory
from shadow.threat import Attack, Guesses, Knowledge, MembershipAttack
from shadow.views import EVERYTHING, View


def reconstruction_game(
    attack: Attack,
    factory: Factory,
    targets: Examples,
    knowledge: Knowledge,
    *,
    error: Callable[[Guesses, Guesses], Float[np.ndarray, " releases"]],
    key: Array,
    view: View = EVERYTHING,
) -> Float[np.ndarray, " releases"]:
    """Play Algorithm 1, train on D_- + z and attack; return the error of every game.

    Args:
      attack: the reconstruction attack R.
      factory: the developer, who holds D_- and A. It trains in the role "released",
        whatever its own role, so that no shadow model shares its private randomness.
      targets: z of each game; there is one game per target.
      knowledge: what this adversary knows.
      error: l(z, z-hat), (releases, ...) twice -> (releases,).
      key: the adversary's own randomness.
      view: what the developer publishes of theta; default: all of it.
    Raises: ValueError: a target is in the fixed set or among the public images, or
      guesses have another shape.
    """
    _require_unknown(targets, factory.fixed, "in the fixed set")
    if knowledge.public is not None:
        _require_unknown(targets, knowledge.public, "among the public images")
    release = factory.release(targets, view)
    guess = attack(release, knowledge, key=key)
    if guess.images.shape != targets.images.shape:
        raise ValueError(
            f"Expected reconstructions of shape {targets.images.shape}, got"
            f" {guess.images.shape}."
        )
    return error(targets.images, guess.images)


def membership_game(
    attack: MembershipAttack,
    factory: Factory,
    candidates: tuple[Examples, Examples],
    knowledge: Knowledge,
    *,
    key: Array,
) -> Bool[np.ndarray, " releases"]:
    """Play Algorithm 2; return whether the attack named the right candidate, by game.

    The developer flips a coin, and trains on D_- and z_0 or z_1.

    Args: as `reconstruction_game`; candidates = (z_0, z_1) of every game.
    Raises: ValueError: a candidate is in the fixed set, or a guess isn't 0 or 1.
    """
    coin_key, attack_key = jax.random.split(key)
    first, second = candidates
    if first.images.shape != second.images.shape:
        raise ValueError(
            "Expected two candidates of each game, got images of shape"
            f" {first.images.shape} and {second.images.shape}."
        )
    same = (first.images == second.images).all(axis=(1, 2, 3))
    if (same & (first.labels == second.labels)).any():
        raise ValueError(
            f"Expected different candidates; both of game {same.argmax()} are equal."
        )
    for examples in candidates:
        _require_unknown(examples, factory.fixed, "in the fixed set")
    coins = np.asarray(jax.random.bernoulli(coin_key, shape=(len(first),)))
    chosen = dataclasses.replace(
        first,
        images=np.where(coins[:, None, None, None], second.images, first.images),
        labels=np.where(coins, second.labels, first.labels),
    )
    release = factory.release(chosen)
    guess = np.asarray(attack(release, knowledge, candidates, key=attack_key))
    if guess.shape != coins.shape or not np.isin(guess, (0, 1)).all():
        raise ValueError(
            f"Expected a guess of 0 or 1 for each of {len(coins)} games, got an array"
            f" {guess.shape} of type {guess.dtype}."
        )
    return guess == coins


def _require_unknown(targets: Examples, others: Examples, where: str) -> None:
    """Refuse targets that the adversary has, such as those in D_-."""
    known = copies.among(targets.images, others.images)
    if known.any():
        raise ValueError(
            f"Expected targets that aren't {where}; number {known.argmax()} of"
            f" {targets.name} is."
        )
