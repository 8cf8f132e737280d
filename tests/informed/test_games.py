import dataclasses
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import informed
import reconn
import shadow
from informed.attacks.membership_attacks import RetrainingMembership
from shadow import Release, publish
from shadow.threat import Knowledge, Reconstruction


class MeanImage:
    """An attack without any information from the release."""

    def __call__(self, release, knowledge, *, key):
        mean = knowledge.fixed.images.mean(axis=0)
        return Reconstruction(images=np.stack([mean] * len(release)))


def test_the_game_compares_with_the_truth(factory, split, key):
    knowledge = factory.knowledge()
    errors = informed.reconstruction_game(
        MeanImage(), factory, split.test, knowledge, error=informed.mse, key=key
    )
    mean = split.fixed.images.mean(axis=0)
    np.testing.assert_allclose(
        errors, ((split.test.images - mean) ** 2).mean(axis=(1, 2, 3)), rtol=1e-5
    )


def test_targets_that_the_adversary_has_are_refused(factory, split, key):
    knowledge = factory.knowledge(public=split.test)
    with pytest.raises(ValueError, match="aren't among the public images; number 0"):
        informed.reconstruction_game(
            MeanImage(), factory, split.test, knowledge, error=informed.mse, key=key
        )


def test_a_guess_of_another_shape_is_refused(factory, split, key):
    def one_only(release, knowledge, *, key):
        return Reconstruction(images=np.zeros((1, 8, 8, 1), np.float32))

    with pytest.raises(ValueError, match=r"shape \(10, 8, 8, 1\), got \(1, 8, 8, 1\)"):
        informed.reconstruction_game(
            one_only,
            factory,
            split.test,
            factory.knowledge(),
            error=informed.mse,
            key=key,
        )


def test_what_the_adversary_is_not_told_is_none(factory):
    told = factory.knowledge()
    assert told.initialisation.shape == (factory.descent.victim.num_params,)
    assert told.training_key is not None
    secretive = dataclasses.replace(
        factory,
        algorithm=dataclasses.replace(
            factory.descent, initialisation="random", shuffling="unknown"
        ),
    )
    told = secretive.knowledge()
    assert told.initialisation is None
    assert told.training_key is None
    assert told.labels is None
    assert told.public is None


def test_the_developer_has_randomness_of_their_own(factory, split, key):
    """Whatever the role of the factory handed in: releases are never shadow models."""
    shadows = dataclasses.replace(
        factory,
        role="shadow",
        algorithm=dataclasses.replace(factory.descent, initialisation="random"),
    )
    seen = []

    def remember(release, knowledge, *, key):
        seen.append(release.weights)
        return Reconstruction(images=split.test.images)

    informed.reconstruction_game(
        remember, shadows, split.test, Knowledge(), error=informed.mse, key=key
    )
    assert np.abs(seen[0] - shadows.train(split.test)).max() > 1e-3


def test_retraining_always_wins_the_membership_game(factory, split, key):
    """Section II-D: against a deterministic A informed membership is trivial."""

    def retrain(release, knowledge, candidates, *, key):
        maker = shadow.Factory(
            algorithm=knowledge.algorithm,
            fixed=knowledge.fixed,
            key=factory.key,
            width=4,
        )
        distances = [
            np.abs(maker.train(candidate) - release.weights).max(axis=1)
            for candidate in candidates
        ]
        return np.argmin(distances, axis=0)

    candidates = (split.shadow.take(slice(0, 20)), split.shadow.take(slice(20, 40)))
    knowledge = factory.knowledge()
    won = informed.membership_game(retrain, factory, candidates, knowledge, key=key)
    assert won.all()

    def always_first(release, knowledge, candidates, *, key):
        return np.zeros(len(release), np.int64)

    won = informed.membership_game(
        always_first, factory, candidates, knowledge, key=key
    )
    assert 0 < won.sum() < 20, "the coin falls on both sides"


@pytest.mark.parametrize(
    "guesses",
    [np.zeros((4, 1)), np.zeros(3), np.full(4, np.nan), [0, 1, 0.9, 0], [0, 2, 1, 0]],
)
def test_what_names_no_candidate_is_refused(factory, split, key, guesses):
    """A guess of shape (games, 1) was compared with every coin: half are right."""
    candidates = (split.shadow.take(slice(0, 4)), split.shadow.take(slice(4, 8)))
    with pytest.raises(ValueError, match="a guess of 0 or 1 for each of 4 games"):
        informed.membership_game(
            lambda *_, key: guesses, factory, candidates, Knowledge(), key=key
        )


def test_a_record_of_the_fixed_set_is_no_target(factory, split, key):
    def attack(*_, key):
        raise AssertionError("nobody plays")

    known = split.fixed.take(slice(0, 4))
    fresh = split.test.take(slice(0, 4))
    with pytest.raises(ValueError, match="number 0 of"):
        informed.reconstruction_game(
            attack, factory, known, Knowledge(), error=informed.mse, key=key
        )
    for candidates in ((known, fresh), (fresh, known)):
        with pytest.raises(ValueError, match="number 0 of"):
            informed.membership_game(attack, factory, candidates, Knowledge(), key=key)


def test_a_reconn_depends_on_the_release_alone(factory, split, key):
    """Same release: same bytes. Another target behind it, other knowledge: no matter.

    Rows are separate games: a row's guess doesn't depend on the others.
    """
    weights = dataclasses.replace(factory, role="shadow").train(split.shadow)
    models = shadow.ShadowModels.of(weights, split.shadow)
    method = reconn.Network(module=reconn.mlp(widths=(16,)), epochs=3, batch_size=8)
    attack = reconn.train(models, method, key=key, progress=False)
    weights = factory.train(split.test)
    first = attack(publish(weights), Knowledge(), key=key).images
    second = attack(publish(weights), factory.knowledge(), key=jax.random.key(1)).images
    np.testing.assert_array_equal(first, second)
    assert first.min() >= 0
    assert first.max() <= 1
    reordered = attack(publish(weights[::-1]), Knowledge(), key=key).images
    np.testing.assert_allclose(reordered[::-1], first, atol=1e-6)
    other = attack(publish(weights[5:]), Knowledge(), key=key).images
    np.testing.assert_allclose(other, first[5:], atol=1e-6)


def test_releases_that_are_not_finite_or_not_of_the_victim_are_refused(factory, split):
    weights = factory.train(split.test)
    bad = weights.copy()
    bad[3, 7] = np.nan
    with pytest.raises(ValueError, match=r"NaN or infinity in 1 of 10 .* number 3"):
        publish(bad)

    def made(weights, deviations=None):  # past the type checker that tests run under
        Release.__post_init__(SimpleNamespace(values=weights, deviations=deviations))

    with pytest.raises(ValueError, match=r"\(releases, params\), got \(\d+,\)"):
        made(weights[0])
    with pytest.raises(ValueError, match="Expected deviations of shape"):
        made(weights, np.ones((10, 3)))


@pytest.mark.parametrize(
    "attack",
    [
        lambda release, told, key: informed.Inversion()(release, told, key=key),
        lambda release, told, key: RetrainingMembership()(
            release, told, (told.fixed, told.fixed), key=key
        ),
    ],
    ids=["inversion", "membership"],
)
def test_what_does_not_belong_together_is_one_clear_error(attack, factory, split, key):
    told = factory.knowledge()
    weights = factory.train(split.test)
    short = publish(weights[:, :-1])
    params = factory.descent.victim.num_params
    with pytest.raises(ValueError, match=f"{params} parameters.*got {params - 1}"):
        attack(short, told, key)
    few = dataclasses.replace(told, labels=split.test.labels[:4])
    with pytest.raises(ValueError, match="labels with one per release, 10, got 4"):
        attack(publish(weights), few, key)


def test_membership_needs_two_candidates_a_release(factory, split, key):
    release = publish(factory.train(split.test))
    pair = (split.test, split.test.take(slice(0, 4)))
    with pytest.raises(ValueError, match="each of 10 releases, got 10 and 4"):
        RetrainingMembership()(release, factory.knowledge(), pair, key=key)
