"""The threat model as types, and the games of the paper as functions.

An attack is a callable `attack(release, knowledge, *, key) -> Reconstruction`. It gets
what is published (`Release`) and what this adversary is told (`Knowledge`); what it is
not told is an explicit None. The target never gets near it: only the game compares.

Source: Balle et al. 2022, Definition 1, Algorithms 1 and 2.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int

from informed.known import Known
from shadow import checks, copies
from shadow.data import Examples
from shadow.factory import Factory
from shadow.parallel import Runs
from shadow.release import Release, publish
from shadow.training import Algorithm, Draw, GradientDescent, SeedFamily
from shadow.views import EVERYTHING, View

Guesses = Float32[np.ndarray, "releases height width channels"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Knowledge:
    """What the adversary is told besides the release. None: not told.

    Attributes:
      fixed: D_-, all training points but the target.
      algorithm: the training algorithm A.
      initialisation: (params,), theta_0; or (releases, params), one a release.
      training_key: what A draws its own randomness from, as it takes it: the key of the
        order of mini-batches, or of everything in a function of the user's.
      public: side knowledge aux, labelled images disjoint from D_- and the targets.
      labels: (releases,), the targets' labels.
      seeds: the family of seeds that theta_0 was drawn from, where the code is known
        and the seed is not; it can be searched (`attacks.seeds`).
      known: pixels or columns of the targets (attribute inference, Section II-C).
    """

    fixed: Examples | None = None
    algorithm: Algorithm | None = None
    initialisation: Float[np.ndarray, "*releases params"] | None = None
    training_key: Any = None
    public: Examples | None = None
    labels: Int[np.ndarray, " releases"] | None = None
    seeds: SeedFamily | None = None
    known: Known | None = None

    def require(self, release: Release, *needed: str) -> None:
        """Whether what an attack needs is told, and fits what is seen.

        Args:
          release: what is seen.
          needed: names of fields.
        Raises: FieldError: something needed is None; weights of another victim; not one
          label, or known part of a target, a release.
        """
        require_told(self, *needed)
        told = self.algorithm is not None and self.fixed is not None
        if told and release.view.whole:
            assert self.algorithm is not None
            assert self.fixed is not None
            expected = self.algorithm.layout(self.fixed)[-1].stop
            params = release.values.shape[1]
            if params != expected:
                raise checks.FieldError(
                    "weights",
                    f"Expected {{}} of {expected} parameters, those of this victim, got"
                    f" {params}.",
                )
        start, known = self.initialisation, self.known
        own = start is not None and start.ndim == 2  # or one for all
        for field, given in (
            ("initialisation", start if own else None),
            ("labels", self.labels),
            ("known", None if known is None else known.values),
        ):
            if given is not None and len(given) != len(release):
                raise checks.FieldError(
                    field,
                    f"Expected {{}} with one per release, {len(release)}, got"
                    f" {len(given)}.",
                )

    @classmethod
    def informed(cls, factory: Factory, public: Examples | None = None) -> "Knowledge":
        """All that Definition 1 grants against the models of a factory.

        The initialisation and A's own randomness are told where they are public, and
        are None where they aren't. How a seed becomes theta_0 is A's code, so it is
        told; the seed isn't.
        """
        algorithm, seeds = factory.algorithm, None
        if isinstance(algorithm, GradientDescent):
            drawn = algorithm.training.initialisation == "seeded"
            seeds = algorithm.seeds if drawn else None
        return cls(
            fixed=factory.fixed,
            algorithm=factory.algorithm,
            initialisation=factory.initialisation,
            training_key=factory.public_key,
            public=public,
            seeds=seeds,
        )


Numbered = Callable[[Any], Any]


def own_runs(
    knowledge: Knowledge,
    key: Array | Numbered,
    *,
    width: int,
    starts: Numbered | None = None,
    own_keys: Numbered | None = None,
    algorithm: Algorithm | None = None,
    dtype: Any = np.float32,
) -> Runs:
    """A as the adversary runs it: with what is told of its randomness, the rest drawn.

    Args:
      knowledge: fixed and algorithm are needed. An initialisation for each release is
        that of the releases, and of no other run: it is used by way of `starts` alone.
      key: of all that isn't told, noise included; or the number of a run -> its key.
      width: rows at once on one device, or processes.
      starts: number of a run -> theta_0; None: the one that is told, or drawn.
      own_keys: number of a run -> what A draws its own randomness from, as A takes it;
        None: the key that is told, or drawn.
      algorithm: to run in the place of the one that is told, such as that without its
        noise.
      dtype: of images, and of theta_0 where it is drawn.
    Raises: FieldError: a fact that it needs is None.
    """
    require_told(knowledge, "fixed", "algorithm")
    assert knowledge.fixed is not None
    algorithm = knowledge.algorithm if algorithm is None else algorithm
    assert algorithm is not None
    draw = own_draws(knowledge, key, starts=starts, own_keys=own_keys, dtype=dtype)
    data = knowledge.fixed.images, knowledge.fixed.labels
    return Runs(algorithm, data, draw, width=width, dtype=dtype)


def own_draws(
    knowledge: Knowledge,
    key: Array | Numbered,
    *,
    starts: Numbered | None = None,
    own_keys: Numbered | None = None,
    dtype: Any = np.float32,
) -> Callable[[Any], Draw]:
    """Number of a run of the adversary's own -> its randomness; see `own_runs`."""
    algorithm, told = knowledge.algorithm, knowledge.training_key
    start = knowledge.initialisation
    assert algorithm is not None
    if starts is None and start is not None and np.ndim(start) == 1:
        starts = _always(np.asarray(start, dtype))
    if own_keys is None and told is not None:
        own_keys = _always(told)

    def draw(number: Any) -> Draw:
        own = key(number) if callable(key) else jax.random.fold_in(key, number)
        start_key, own_key, noise_key = jax.random.split(own, 3)
        begin = algorithm.initialise(start_key) if starts is None else starts(number)
        if starts is None and begin is not None:
            begin = begin.astype(dtype)
        return Draw(
            start=begin,
            key=algorithm.own_key(own_key) if own_keys is None else own_keys(number),
            noise_key=noise_key,
        )

    return draw


def _always(value: Any) -> Numbered:
    return lambda number: value


def require_told(facts: Any, *needed: str) -> None:
    """Raise FieldError unless none of these fields of what is told is None."""
    missing = [name for name in needed if getattr(facts, name) is None]
    if missing:
        raise checks.FieldError(
            missing[0],
            f"This attack needs to be told {', '.join(missing)}; this adversary isn't.",
        )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Reconstruction:
    """An attack's guess of the targets, one per release.

    Attributes:
      images: (releases, height, width, channels).
      labels: (releases,), where the attack recovers them.
      residuals: (releases,), what the guess fails to explain of theta, squared, where
        the attack knows.
      certified: (releases,) bool, whether the attack itself takes the guess for exact.
      exact_if_levels: (releases,) bool, whether the guess is exact if the target's
        pixels are among the levels of the images that the adversary knows, and theta
        alone doesn't say that they are.
      expected_mse: (releases,), the error that the attack expects; where the guess
        leaves more of theta unexplained than noise does, that counts as noise.
      label_margins: (releases,), how much worse the second label explains theta than
        the first, as a quotient >= 1; where labels are recovered.
      trainings: (releases,), how often A was run; what releases share counts for the
        first. Derivatives that are carried along in a run are not counted.
    """

    images: Guesses
    labels: Int[np.ndarray, " releases"] | None = None
    residuals: Float[np.ndarray, " releases"] | None = None
    certified: Bool[np.ndarray, " releases"] | None = None
    exact_if_levels: Bool[np.ndarray, " releases"] | None = None
    expected_mse: Float[np.ndarray, " releases"] | None = None
    label_margins: Float[np.ndarray, " releases"] | None = None
    trainings: Int[np.ndarray, " releases"] | None = None

    @classmethod
    def joined(cls, parts: "Sequence[Reconstruction]") -> "Reconstruction":
        """One after the other. All of them know the same about themselves."""
        if not parts:
            raise ValueError("parts: got no reconstruction; at least one is needed.")
        fields: dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            values = [getattr(part, field.name) for part in parts]
            known = values[0] is not None
            fields[field.name] = np.concatenate(values) if known else None
        return cls(**fields)


@runtime_checkable
class Attack(Protocol):
    """A reconstruction attack R: theta, D_-, A; aux -> candidate."""

    def __call__(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Reconstruction:
        """Reconstruct the target of every release."""


@runtime_checkable
class MembershipAttack(Protocol):
    """An informed membership attack M: theta, D_-, A, z_0, z_1 -> which one."""

    def __call__(
        self,
        release: Release,
        knowledge: Knowledge,
        candidates: tuple[Examples, Examples],
        *,
        key: Array,
    ) -> Int[np.ndarray, " releases"]:
        """Guess, for every release, whether candidate 0 or 1 was trained on."""


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
    """Algorithm 1: train on D_- + z, attack, compare. One game per target.

    Args:
      attack: the reconstruction attack R.
      factory: the developer, who holds D_- and A; trains in the role "released",
        whatever the factory's, so that no private randomness is a shadow model's.
      targets: z of each game.
      knowledge: what this adversary is told.
      error: l(z, z-hat), (releases, ...) twice -> (releases,).
      key: the adversary's own randomness.
      view: what the developer publishes of theta; default: all of it.
    Returns: the error of every game.
    Raises: ValueError: a target is in the fixed set, or guesses of another shape.
    """
    _require_unknown(factory, targets)
    release = publish(_developer(factory).train(targets), view)
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
    """Algorithm 2: the developer flips a coin between two candidates.

    Args: as `reconstruction_game`; candidates = (z_0, z_1) of every game.
    Returns: whether the attack named the one trained on, in every game.
    Raises: ValueError: a candidate is in the fixed set, or a guess isn't 0 or 1.
    """
    coin_key, attack_key = jax.random.split(key)
    first, second = candidates
    _require_unknown(factory, first, second)
    coins = np.asarray(jax.random.bernoulli(coin_key, shape=(len(first),)))
    chosen = dataclasses.replace(
        first,
        images=np.where(coins[:, None, None, None], second.images, first.images),
        labels=np.where(coins, second.labels, first.labels),
    )
    release = publish(_developer(factory).train(chosen))
    guess = np.asarray(attack(release, knowledge, candidates, key=attack_key))
    if guess.shape != coins.shape or not np.isin(guess, (0, 1)).all():
        raise ValueError(
            f"Expected a guess of 0 or 1 for each of {len(coins)} games, got an array"
            f" {guess.shape} of type {guess.dtype}."
        )
    return guess == coins


def _require_unknown(factory: Factory, *targets: Examples) -> None:
    """Refuse to play for a record of D_-, which the adversary has.

    Raises: ValueError: says which target.
    """
    for examples in targets:
        known = copies.among(examples.images, factory.fixed.images)
        if known.any():
            raise ValueError(
                f"Expected targets that aren't in the fixed set; number"
                f" {known.argmax()} of {examples.name} is."
            )


def _developer(factory: Factory) -> Factory:
    """The factory in the role of the developer."""
    if factory.role == "released":
        return factory
    return dataclasses.replace(factory, role="released")
