"""A as the adversary runs it: one function, and every attack goes by it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shadow
from informed.adversary_runs import adversary_draws, adversary_runs
from informed.attacks.inversion.retraining import Programs, Retraining
from informed.attacks.seeds import still
from informed.attacks.stationary import StationaryAttack, StationaryConfig
from shadow.threat import Knowledge, publish
from shadow.training.algorithm import Draw
from shadow.training.seeds import SeedFamily

_OFFSET = 12345


@pytest.fixture
def numbered(monkeypatch):
    """Gradient descent takes its own key as a number, and stumbles over any other."""
    train = shadow.GradientDescent.__call__

    def call(self, fixed, images, labels, draw):
        assert jnp.shape(draw.key) == ()
        assert draw.key.dtype == jnp.uint32, "this A takes numbers"
        key = jax.random.key(draw.key)
        return train(self, fixed, images, labels, dataclasses.replace(draw, key=key))

    def own_key(self, key):
        return jax.random.key_data(key)[0].astype(jnp.uint32)

    monkeypatch.setattr(shadow.GradientDescent, "__call__", call)
    monkeypatch.setattr(shadow.GradientDescent, "own_key", own_key)


@pytest.fixture
def told(digits, numbered):
    fixed = digits.take(np.arange(20))
    victim = shadow.build_victim(
        shadow.VictimConfig(widths=(4,)), image_shape=(8, 8, 1), num_classes=10
    )
    return Knowledge(
        fixed=fixed,
        algorithm=shadow.GradientDescent(
            victim=victim, epochs=3, batch_size=7, shuffling="unknown"
        ),
        public=digits.take(np.arange(100, 120)),
    )


def family(told, **fields):
    victim = told.algorithm.victim
    return SeedFamily(draw=lambda key: victim.init(key), stop=4, **fields)


def by_stationary(told, key):
    params = told.algorithm.layout(told.fixed)[-1].stop
    weights = 0.1 * np.random.default_rng(0).standard_normal((1, params))
    attack = StationaryAttack(config=StationaryConfig(models=4, steps=1))
    release = publish(weights.astype(np.float32))
    knowledge = dataclasses.replace(told, labels=np.array([3]))
    return attack(release, knowledge, key=key).images


def by_inversion(told, key):
    runs = Retraining(Programs(told, width=4, draws=3, key=key))
    return runs.thetas(told.public.images[:2, None], told.public.labels[:2, None])


def by_still(told, key):
    runs = still.seeded_runs(told, family(told), np.arange(3), key)
    public = told.public
    return runs(public.images[:3, None], public.labels[:3, None], np.arange(3))


@pytest.mark.parametrize("attack", [by_stationary, by_inversion, by_still])
def test_every_attack_draws_keys_as_a_takes_them(attack, told):
    assert np.isfinite(attack(told, jax.random.key(0))).all()


def draws(told, count=40, **fields):
    draw = adversary_draws(told, jax.random.key(5), **fields)
    return [draw(number) for number in range(count)]


def test_what_is_told_is_used_and_the_rest_is_drawn(told):
    found = draws(told)
    for name in ("start", "key", "noise_key"):
        values = {np.asarray(_plain(getattr(d, name))).tobytes() for d in found}
        assert len(values) == 40, name
    start = np.arange(told.algorithm.layout(told.fixed)[-1].stop, dtype=float)
    both = dataclasses.replace(told, initialisation=start, training_key=np.uint32(7))
    found = draws(both)
    assert all((d.start == start).all() and d.key == 7 for d in found)
    # Noise is told to nobody.
    assert len({np.asarray(_plain(d.noise_key)).tobytes() for d in found}) == 40
    by_number = draws(both, starts=lambda n: n + 0.5, own_keys=lambda n: n + _OFFSET)
    assert [(d.start, d.key) for d in by_number] == [
        (n + 0.5, n + _OFFSET) for n in range(40)
    ]


def test_an_initialisation_of_each_release_is_of_no_other_run(told):
    params = told.algorithm.layout(told.fixed)[-1].stop
    rows = dataclasses.replace(told, initialisation=np.ones((3, params)))
    for own, drawn in zip(draws(rows, 3), draws(told, 3), strict=True):
        np.testing.assert_array_equal(own.start, drawn.start)


def test_runs_are_those_of_the_algorithm_called_by_hand(told):
    key, public = jax.random.key(3), told.public
    runs = adversary_runs(told, key, width=2)
    found = runs(public.images[:3, None], public.labels[:3, None], np.array([4, 0, 9]))
    data = told.fixed.images, told.fixed.labels
    for i, number in enumerate((4, 0, 9)):
        start, own, noise = jax.random.split(jax.random.fold_in(key, number), 3)
        draw = Draw(
            start=told.algorithm.initialise(start),
            key=told.algorithm.own_key(own),
            noise_key=noise,
        )
        by_hand = told.algorithm(
            data, public.images[i : i + 1], public.labels[i : i + 1], draw
        )
        np.testing.assert_allclose(found[i], by_hand, atol=1e-6)


def test_what_is_needed_and_not_told_is_named(told):
    with pytest.raises(ValueError, match="needs to be told algorithm"):
        adversary_runs(Knowledge(fixed=told.fixed), jax.random.key(0), width=1)


def _plain(value):
    is_key = jnp.issubdtype(jnp.asarray(value).dtype, jax.dtypes.prng_key)
    return jax.random.key_data(value) if is_key else value
