"""The programs of an accelerator give what those of a CPU give; both run on this CPU.

On an accelerator all examples are taken at once, or groups of 500 of them; on a CPU as
many as a cache holds, the CNN by Toom-Cook.
"""

import dataclasses

import jax
import numpy as np
import pytest

import shadow
from dp import gradient
from dp.gradient import PrivacyConfig
from informed.experiment.training_settings import TrainingConfig
from shadow import devices, victims

PRIVATE = PrivacyConfig(clip_norm=1.0, noise_multiplier=0.5, sampling_probability=0.5)
CASES = {
    "MLP": ("mlp", {}, 2e-6),
    "MLP in batches": ("mlp", {"batch_size": 1100}, 2e-6),
    "MLP private": ("mlp", {"privacy": PRIVATE}, 2e-6),
    "MLP by Adam": ("mlp", {"optimiser": "adam", "learning_rate": 1e-3}, 5e-5),
    "CNN": ("cnn", {}, 2e-6),
    "CNN in batches": ("cnn", {"batch_size": 25, "learning_rate": 0.05}, 2e-6),
    "CNN private": ("cnn", {"privacy": PRIVATE}, 2e-6),
}


def made(architecture, **training):
    """A factory and two targets: more examples than go together on a CPU."""
    side, count = (8, 1150) if architecture == "mlp" else (10, 60)
    rng = np.random.default_rng(0)
    victim = victims.build(
        victims.VictimConfig(architecture=architecture, widths=(5,)),
        image_shape=(side, side, 1),
        num_classes=10,
    )
    some = shadow.Examples(
        images=rng.random((count + 2, side, side, 1), dtype=np.float32),
        labels=rng.integers(0, 10, count + 2).astype(np.int32),
        num_classes=10,
    )
    factory = shadow.Factory(
        algorithm=TrainingConfig(**({"epochs": 10} | training)).algorithm(victim),
        fixed=some.take(slice(0, count)),
        key=jax.random.key(0),
        width=2,
    )
    return factory, some.take(slice(count, None))


@pytest.mark.parametrize("case", CASES)
def test_both_kinds_of_device_train_the_same_models(case):
    architecture, training, allowed = CASES[case]
    factory, targets = made(architecture, **training)
    on_cpu = factory.train(targets)
    with devices.as_on_an_accelerator(8 << 30):
        factory, _ = made(architecture, **training)
        on_card = factory.train(targets)
    assert np.abs(on_cpu - factory.initialisation).max() > 1e-2
    apart = np.abs(on_card - on_cpu)
    if "privacy" in training:
        # The noisy sum is rounded to a grid: where the sums of two forms differ in
        # their last digit, an entry now and then is the next multiple, seldom in two
        # steps (1.46 of one multiple on one processor, at most 1 on others).
        others = apart > allowed
        assert others.mean() < 0.005
        assert apart.max() < 2.1 * one_multiple(factory)
        apart = apart[~others]
    assert apart.max() <= allowed


def one_multiple(factory):
    """How far a weight ends if one noisy gradient of it is the next on its grid."""
    count = len(factory.fixed) + 1
    training = TrainingConfig(epochs=10)
    deviation = PRIVATE.noise_multiplier * PRIVATE.clip_norm
    grid = 2.0 ** np.floor(np.log2(deviation * gradient._GRID))
    kept = sum(training.momentum**epoch for epoch in range(training.epochs))
    step = training.learning_rate * grid / (PRIVATE.sampling_probability * count)
    return step * kept


@pytest.mark.parametrize("form", ["whole", "patches"])
def test_all_forms_of_the_cnn_train_the_same_models(form):
    factory, targets = made("cnn")
    expected = factory.train(targets)
    algorithm = factory.algorithm
    other = shadow.Factory(
        algorithm=dataclasses.replace(algorithm, form=form),
        fixed=factory.fixed,
        key=factory.key,
        width=2,
    )
    np.testing.assert_allclose(other.train(targets), expected, rtol=0, atol=2e-6)
    assert other.trained_with == {"width": 2, "form": form}


def test_an_unknown_form_is_refused_with_those_that_there_are():
    factory, _ = made("cnn")
    with pytest.raises(ValueError, match=r"form to be one of .*toom-cook"):
        TrainingConfig().algorithm(factory.algorithm.victim, form="winograd")


def test_a_group_is_what_suits_the_device(accelerator):
    victim = made("cnn")[0].algorithm.victim
    assert victim.form(None).size == 500
    assert victim.form("toom-cook").size == 10
    assert made("mlp")[0].algorithm.victim.form(None) is None
