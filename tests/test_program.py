"""The program of a newcomer, whole: own data and network, from a store to a bound."""

import dataclasses
from pathlib import Path

import flax.linen as nn
import haiku as hk
import jax
import numpy as np
import optax
import pytest
from scipy import stats

import dp
import informed
import reconn
import shadow
from dp.gradient import PrivacyConfig


class Network(nn.Module):
    """The user's victim, of a library of their own choice."""

    @nn.compact
    def __call__(self, images):
        hidden = nn.tanh(nn.Dense(8)(images.reshape(len(images), -1)))
        return nn.Dense(10)(hidden)


def decoder(weights, *, training):
    """The user's reconstructor, a Haiku function from weights to images."""
    del training
    hidden = jax.nn.relu(hk.Linear(100)(weights))
    return jax.nn.sigmoid(hk.Linear(64)(hidden)).reshape(-1, 8, 8, 1)


def test_a_newcomer_goes_from_a_store_to_a_bound(digits, tmp_path: Path):
    np.savez(tmp_path / "mine.npz", images=digits.images[:, ::-1], labels=digits.labels)
    pool = shadow.load(str(tmp_path / "mine.npz"))
    split = shadow.split(pool, num_fixed=100, num_shadow=300, num_test=4, seed=0)
    victim = shadow.from_flax(
        Network(), image_shape=pool.image_shape, num_classes=pool.num_classes
    )
    algorithm = shadow.GradientDescent(
        victim=victim, optimiser=optax.sgd(0.2, momentum=0.9), epochs=30
    )
    factory = shadow.Factory(algorithm, split.fixed, key=jax.random.key(0))

    # Shadow models: begun, interrupted, and gone on with on another day.
    folder = tmp_path / "shadow"
    store = shadow.Store.open(folder, factory, split.shadow, block_size=100)
    store.fill(blocks=[1], progress=False)
    assert store.missing() == [0, 2]
    other = dataclasses.replace(factory, key=jax.random.key(1))
    with pytest.raises(shadow.ConfigurationMismatchError, match="key"):
        shadow.Store.open(folder, other, split.shadow)
    store = shadow.Store.open(folder, factory, split.shadow)
    assert store.missing() == [0, 2]
    store.fill(launcher=shadow.Share(0, of=2), progress=False)
    assert store.missing() == []
    weights = store.read().weights
    alone = factory.train(split.shadow.take(np.array([150])), ids=np.array([150]))
    np.testing.assert_allclose(weights[150], alone[0], atol=2e-6)

    # Reconstructors, which are attacks.
    key = jax.random.key(2)
    kernel = reconn.train(store, reconn.Kernel(), key=key, progress=False)
    network = reconn.train(
        store,
        reconn.Network(module=decoder, optimiser=optax.adamw(1e-3), epochs=20),
        key=key,
        progress=False,
    )
    inversion = informed.Inversion()
    assert all(isinstance(a, shadow.Attack) for a in (kernel, network, inversion))

    # Released models, in another role than the adversary's, and what is told.
    releases = factory.release(split.test)
    knowledge = factory.knowledge(public=split.shadow)
    guesses = [attack(releases, knowledge, key=key) for attack in (kernel, network)]
    exact = inversion(releases, knowledge, key=key)
    compared = informed.compare(split.test, *guesses, exact, gallery=split.shadow)
    by_kernel, by_network, by_inversion = compared.guesses
    mean_image = np.mean((split.test.images - split.shadow.images.mean(axis=0)) ** 2)
    assert by_kernel.mse < by_network.mse < mean_image
    assert by_kernel.mse < compared.oracle_mse
    assert by_inversion.mse < 1e-9
    assert by_inversion.certified == len(split.test)
    assert "guess 3" in str(compared)

    # What the noise of a private training guarantees.
    privacy = PrivacyConfig(clip_norm=1.0, noise_multiplier=8.0)
    private = dataclasses.replace(algorithm, privacy=privacy)
    mechanism = dataclasses.replace(factory, algorithm=private).mechanism()
    bound = dp.rero_bound(mechanism, kappa=1e-3)
    mu = 30**0.5 / 8  # every step is Gaussian, with a gradient of at most the noise / 8
    assert float(bound.gamma) == pytest.approx(of_gaussian(1e-3, mu), rel=1e-6)
    assert delta_of(mechanism.epsilon(delta=1e-5), mu) == pytest.approx(1e-5, rel=1e-3)


def of_gaussian(kappa: float, mu: float) -> float:
    """Phi(Phi^-1(kappa) + mu)."""
    return stats.norm.cdf(stats.norm.ppf(kappa) + mu)


def delta_of(epsilon: float, mu: float) -> float:
    """The delta of mu-Gaussian privacy (Balle and Wang 2018, Theorem 8)."""
    first, second = -epsilon / mu + mu / 2, -epsilon / mu - mu / 2
    return stats.norm.cdf(first) - np.exp(epsilon) * stats.norm.cdf(second)
