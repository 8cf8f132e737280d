"""Private victims out of the factory, against jax-privacy and a plain loop."""

import dataclasses

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import dp
import shadow
from dp.gradient import PrivacyConfig
from informed.experiment.training_settings import TrainingConfig
from shadow.training import cross_entropy, steps_taken
from shadow.training.private import participants

KEY = jax.random.key(3)


@pytest.fixture(scope="module")
def parts(digits):
    return shadow.split(digits, num_fixed=30, num_shadow=40, num_test=3, seed=0)


def training(clip_norm=1.0, noise=0.0, sampling=1.0, **fields):
    fields = {"epochs": 5, "learning_rate": 0.5} | fields
    return TrainingConfig(
        privacy=PrivacyConfig(
            clip_norm=clip_norm, noise_multiplier=noise, sampling_probability=sampling
        ),
        **fields,
    )


def build(architecture="mlp", shape=(8, 8, 1)):
    config = shadow.VictimConfig(architecture=architecture, widths=(6,))
    return shadow.build_victim(config, image_shape=shape, num_classes=10)


def gradients(victim, params, images, labels, clip_norm):
    """The mean of clipped gradients by jax-privacy, one example at a time."""
    from jax_privacy import clipping

    def loss(params, batch):
        image, label = batch
        return cross_entropy(victim.apply(params, image), label).sum()

    clipped = clipping.clipped_grad(
        loss, l2_clip_norm=clip_norm, batch_argnums=1, keep_batch_dim=True
    )
    return clipped(params, (images, labels))


def assert_clipped_as_by_jax_privacy(victim, images, labels, clip_norm, atol):
    """One step of rate 1 moves theta by the mean of clipped gradients."""
    config = training(clip_norm=clip_norm, momentum=0.0, epochs=1, learning_rate=1.0)
    init, count = victim.init(KEY), len(images)
    trained = config.algorithm(victim).train(
        init, (images[:-1], labels[:-1]), (images[-1], labels[-1]), KEY
    )
    moved = jax.tree.map(lambda a, b: count * (a - b), init, trained)
    theirs = gradients(victim, init, images, labels, clip_norm)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=atol), moved, theirs
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "shape", "count"),
    [("mlp", (8, 8, 1), 9), ("cnn", (12, 12, 3), 9), ("cnn", (12, 12, 3), 24)],
)
def test_clipping_is_jax_privacys(architecture, shape, count, rng):
    images = rng.random((count, *shape)).astype(np.float32)
    labels = rng.integers(0, 10, count).astype(np.int32)
    # 1e-6 of the clipping norm and of the number of examples.
    atol = count * 1e-6
    victim = build(architecture, shape)
    assert_clipped_as_by_jax_privacy(victim, images, labels, 0.7, atol)


def test_a_network_of_the_users_own_is_clipped_as_well(parts):
    own = shadow.from_haiku(
        lambda images: hk.Linear(10)(jnp.tanh(hk.Flatten()(images)) ** 2),
        image_shape=(8, 8, 1),
        num_classes=10,
    )
    assert own.tapped is None
    images, labels = parts.fixed.images, parts.fixed.labels
    assert_clipped_as_by_jax_privacy(own, images, labels, 0.3, 3e-5)


def test_a_wide_clip_changes_nothing(parts):
    """Private training with nothing to clip is plain training."""
    victim = build()
    target = (parts.test.images[0], parts.test.labels[0])
    fixed = (parts.fixed.images, parts.fixed.labels)
    init = victim.init(KEY)
    plain = dataclasses.replace(training(), privacy=PrivacyConfig())
    found = training(clip_norm=1e6).algorithm(victim).train(init, fixed, target, KEY)
    expected = plain.algorithm(victim).train(init, fixed, target, KEY)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=2e-6), found, expected
    )


def make(parts, config, role="shadow"):
    return shadow.Factory(
        algorithm=config.algorithm(build()),
        fixed=parts.fixed,
        key=KEY,
        role=role,
        width=4,
    )


def test_noise_is_everyones_own_and_repeatable(parts):
    config = training(noise=2.0)
    targets = parts.shadow.take(np.zeros(8, np.int64))  # the same target eight times
    first = make(parts, config).train(targets)
    assert len(np.unique(first[:, 0])) == 8
    np.testing.assert_array_equal(first, make(parts, config).train(targets))
    released = make(parts, config, role="released").train(targets)
    assert not np.isin(released[:, 0], first[:, 0]).any()
    # A model's noise goes with its number, not with its place.
    later = make(parts, config).train(targets.take(slice(5, 8)), ids=np.arange(5, 8))
    np.testing.assert_array_equal(later, first[5:])


def test_noise_moves_one_step_as_much_as_it_should(parts):
    noise, clip_norm, rate = 3.0, 0.5, 0.2
    config = training(
        clip_norm=clip_norm, noise=noise, epochs=1, momentum=0.0, learning_rate=rate
    )
    targets = parts.shadow.take(np.zeros(40, np.int64))
    weights = make(parts, config).train(targets)
    deviation = rate * noise * clip_norm / (len(parts.fixed) + 1)
    assert weights.std(axis=0).mean() == pytest.approx(deviation, rel=0.05)


def test_sampling_takes_each_example_as_often_as_it_should(parts):
    """Of one step without noise the mean over models is the full batch's step."""
    fields = {"clip_norm": 1.0, "epochs": 1, "momentum": 0.0, "learning_rate": 1.0}
    sampled = training(sampling=0.3, shuffling="unknown", **fields)
    targets = parts.shadow.take(np.zeros(600, np.int64))
    weights = make(parts, sampled).train(targets).astype(np.float64)
    full = make(parts, training(**fields)).train(targets.take(slice(0, 1)))[0]
    spread = weights.std(axis=0) / np.sqrt(len(weights))
    assert (np.abs(weights.mean(axis=0) - full) < 5 * spread + 1e-6).all()
    assert spread.max() > 0


def test_private_mini_batches_are_sampled_not_cut(parts):
    with pytest.raises(ValueError, match="sampling_probability"):
        training(batch_size=10)


def test_steps_taken_tells_whose_gradients_counted(parts):
    """An example moves theta if and only if it takes part in some step."""
    config = training(sampling=0.3, epochs=3, shuffling="known")
    victim, few = build(), 6
    train = jax.jit(config.algorithm(victim).train)
    init = victim.init(KEY)
    images, labels = parts.fixed.images[:few], parts.fixed.labels[:few]
    target = parts.test.images[0], parts.test.labels[0]
    seen = set()
    for number in range(4):
        key = jax.random.fold_in(KEY, number)
        taken = steps_taken(config.privacy, config.epochs, key, few)
        assert taken.shape == (few + 1,)
        plain = victim.flatten(train(init, (images, labels), target, key))
        for place in range(few + 1):
            changed, other = images, target
            if place < few:
                changed = images.copy()
                changed[place] = 1 - images[place]
            else:
                other = (1 - target[0], target[1])
            moved = victim.flatten(train(init, (changed, labels), other, key))
            assert bool(jnp.any(moved != plain)) == bool(taken[place])
            seen.add(bool(taken[place]))
    assert seen == {True, False}


def test_private_sampling_is_secret_unless_it_is_told(parts):
    private, plain = training(sampling=0.3), TrainingConfig(batch_size=5)
    known = training(sampling=0.3, shuffling="known")
    assert not private.algorithm(build()).order_is_public
    assert plain.algorithm(build()).order_is_public
    assert known.algorithm(build()).order_is_public
    assert make(parts, private).knowledge().training_key is None
    # A new sample for every model: the same target ends elsewhere without any noise.
    targets = parts.shadow.take(np.zeros(4, np.int64))
    assert len(np.unique(make(parts, private).train(targets)[:, 0])) == 4


def test_allocation_takes_every_example_once_an_epoch_at_a_random_step():
    private = PrivacyConfig(
        clip_norm=1.0, sampling_probability=1 / 7, sampling="allocation"
    )
    np.testing.assert_array_equal(steps_taken(private, 21, KEY, 99), np.full(100, 3))
    part = np.stack([participants(private, KEY, n, 7000) for n in jnp.arange(14)])
    np.testing.assert_array_equal(part[:7].sum(axis=0), 1)
    joined = [half.argmax(axis=0) for half in (part[:7], part[7:])]
    table = stats.contingency.crosstab(*joined).count  # of steps in both epochs
    assert stats.chisquare(table.ravel()).pvalue > 1e-3
    with pytest.raises(ValueError, match="one over a whole number"):
        PrivacyConfig(clip_norm=1.0, sampling_probability=0.3, sampling="allocation")


def test_a_factory_by_allocation_is_accounted_as_that(parts):
    config = training(noise=2.0, epochs=25)
    privacy = dataclasses.replace(
        config.privacy, sampling_probability=0.1, sampling="allocation"
    )
    secret = make(parts, dataclasses.replace(config, privacy=privacy))
    assert secret.mechanism() == dp.RandomAllocation(
        noise_multiplier=2.0, steps=10, epochs=3, relation="zero_out"
    )
    public = dataclasses.replace(config, privacy=privacy, shuffling="known", epochs=20)
    assert make(parts, public).mechanism() == dp.Gaussian(
        noise_multiplier=2.0, steps=2, relation="zero_out"
    )
    models = secret.train(parts.shadow.take(np.zeros(4, np.int64)))
    assert len(np.unique(np.round(models[:, 0], 6))) == 4
