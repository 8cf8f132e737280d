"""How many models are trained at once, on machines that are here and that aren't."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import shadow
from dp import gradient
from informed.experiment.training_settings import TrainingConfig
from shadow import devices, victims, width

GIGA = 10**9
# Bytes of one model and of each further one. Read off the programs that XLA compiles
# for an H100: temporary memory at the width chosen, over the width.
OF_PROGRAMS = {
    "MLP, 1,000": (40_000_000, 220_000),
    "MLP, 10,000": (32_000_000, 1_500_000),
    "MLP, 10,000, private": (32_000_000, 2_300_000),
    "MLP of 1,000 and 1,000, 10,000": (120_000_000, 181_000_000),
    "from_haiku, private, 10,000": (32_000_000, 318_000_000),
    "CNN, 5,000": (61_000_000, 1_800_000_000),
    "CNN, 50,000, all at once": (600_000_000, 18_700_000_000),
}


def straight(first: int, each: int):
    return lambda models: first + models * each


@pytest.mark.parametrize("card", [80, 40, 24, 16])
@pytest.mark.parametrize("name", OF_PROGRAMS)
def test_a_width_fits_every_card(name, card):
    free = int(0.75 * card * GIGA)
    bytes_of = straight(*OF_PROGRAMS[name])
    found = width.width_for(free, bytes_of)
    assert found.bit_count() == 1
    if found == 1:
        # Never refused: one model is tried where nothing is sure to fit.
        assert bytes_of(2) > min(0.8 * free, 4 << 30)
    else:
        assert bytes_of(found) <= 0.8 * free
    assert found == width.MOST or bytes_of(2 * found) > min(0.8 * free, 4 << 30)


def test_the_paper_s_mnist_fills_a_large_card():
    for name in ("MLP, 1,000", "MLP, 10,000", "MLP, 10,000, private"):
        free = int(0.75 * 80 * GIGA)
        assert width.width_for(free, straight(*OF_PROGRAMS[name])) == 512


def test_what_others_use_of_a_card_is_not_taken():
    bytes_of = straight(*OF_PROGRAMS["MLP, 10,000"])
    assert width.width_for(200_000_000, bytes_of) < width.width_for(GIGA, bytes_of)


def test_on_a_cpu_the_choice_fits_the_cache(victim, split):
    mnist = victims.build(
        victims.VictimConfig(), image_shape=(28, 28, 1), num_classes=10
    )
    cnn = victims.build(
        victims.VictimConfig(architecture="cnn"),
        image_shape=(32, 32, 3),
        num_classes=10,
    )
    training = TrainingConfig()
    small, large, heavy = (
        width.models_per_batch(training.algorithm(model), of(model, count))
        for model, count in ((victim, 50), (mnist, 10_000), (cnn, 5_000))
    )
    assert 64 >= small >= large >= heavy >= 1
    assert small.bit_count() == large.bit_count() == 1


def of(victim, count):
    """So many images of a victim's shape, which take no memory."""
    return shadow.Examples(
        images=np.broadcast_to(np.float32(0), (count, *victim.image_shape)),
        labels=np.zeros(count, np.int32),
        num_classes=victim.num_classes,
    )


@pytest.mark.parametrize("batch_size", [64, 512])
def test_batches_of_their_own_fit_the_cache_as_well(batch_size):
    """Where the order is known one mini-batch serves all models; else each has one."""
    victim = victims.build(
        victims.VictimConfig(), image_shape=(28, 28, 1), num_classes=10
    )
    fixed = shadow.Examples(
        images=np.zeros((1000, 28, 28, 1), np.float32),
        labels=np.zeros(1000, np.int32),
        num_classes=10,
    )
    known, unknown = (
        width.models_per_batch(
            TrainingConfig(batch_size=batch_size, shuffling=shuffling).algorithm(
                victim
            ),
            fixed,
        )
        for shuffling in ("known", "unknown")
    )
    if devices.cache_bound():
        assert unknown < known
        of_one = 4 * batch_size * 28 * 28
        assert unknown == 1 or unknown * of_one <= 2 * devices.cache_bytes()


def test_a_network_without_ghost_norms_holds_gradients_of_few_examples():
    """It clips one gradient an example: those of 500 at a time wouldn't fit."""
    private = TrainingConfig(epochs=2, privacy=gradient.PrivacyConfig(clip_norm=1.0))
    tapped = victims.build(
        victims.VictimConfig(), image_shape=(8, 8, 1), num_classes=10
    )
    plain = dataclasses.replace(tapped, tapped=None, groups=None)
    with devices.as_on_an_accelerator(GIGA // 20):
        algorithm = private.algorithm(plain)
        fixed = of(plain, 500)
        chosen = width.models_per_batch(algorithm, fixed)
        needed = width.program_bytes(algorithm, fixed, chosen)
    of_all = chosen * 500 * plain.num_params * 4
    assert chosen > 1
    assert needed < of_all / 5
    assert needed <= 0.8 * GIGA // 20


def test_memory_is_a_straight_line(victim, split):
    """What `width_for` rests on."""
    algorithm = TrainingConfig(epochs=2, optimiser="adam").algorithm(victim)
    with devices.as_on_an_accelerator(GIGA):
        one, two, many = (
            width.program_bytes(algorithm, split.fixed, count) for count in (1, 2, 64)
        )
    assert many == pytest.approx(one + 63 * (two - one), rel=0.25)


def test_a_function_of_the_users_fits_an_accelerator_too():
    """Its insides aren't known; XLA knows what they take."""

    def train(images, labels, key):
        flat = images.reshape(len(images), -1)
        return jnp.linalg.inv(flat.T @ flat + jnp.eye(flat.shape[1])).sum(axis=0)

    algorithm = shadow.JaxFunction(train=train, version="1")
    victim = victims.build(
        victims.VictimConfig(), image_shape=(8, 8, 1), num_classes=10
    )
    fixed = of(victim, 300)
    assert width.models_per_batch(algorithm, fixed) == 16, "on a CPU a few"
    with devices.as_on_an_accelerator(1 << 30):
        assert width.models_per_batch(algorithm, fixed) == 16, "it may take long"
    with devices.as_on_an_accelerator(1 << 20):
        chosen = width.models_per_batch(algorithm, fixed)
        assert 1 < chosen < 16
        assert width.program_bytes(algorithm, fixed, chosen) <= 0.8 * (1 << 20)
