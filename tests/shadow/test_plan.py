import dataclasses

import jax
import numpy as np
import pytest

import shadow
from informed.experiment.training_settings import TrainingConfig
from shadow import devices, victims
from shadow import plan as planning
from shadow.cards import CARDS
from shadow.plan import plan, planned_on


@pytest.fixture
def factory(victim, split):
    return shadow.Factory(
        algorithm=TrainingConfig(epochs=3).algorithm(victim),
        fixed=split.fixed,
        key=jax.random.key(0),
        width=4,
    )


def test_what_is_counted_is_what_it_takes(factory, victim, split):
    found = plan(factory, split.shadow, 1000)
    assert found.params == victim.num_params
    assert found.store_bytes == 1000 * 4 * (victim.num_params + 64 + 1)
    # Forward and backward products of both layers; the first has no input gradient.
    products = 2 * 51 * (2 * 64 * 5 + 3 * 5 * 10)
    assert 3 * products <= found.flops <= 1.3 * 3 * products
    assert found.models_per_s > 0
    one = found.seconds(1)
    assert found.seconds(10) == pytest.approx(one / 10)
    assert found.seconds() == pytest.approx(one / found.devices)


def test_what_does_not_fit_is_refused_with_the_number(factory, split, monkeypatch):
    needed = plan(factory, split.shadow, 1000).memory_bytes
    monkeypatch.setattr(devices, "memory_bytes", lambda: needed - 1)
    gigabytes = f"{needed / 2**30:.1f} GiB"
    with pytest.raises(MemoryError, match=rf"about {gigabytes} .*has {gigabytes}"):
        plan(factory, split.shadow, 1000)


def test_more_at_once_needs_more(factory, split):
    wide = dataclasses.replace(factory, width=64)
    assert wide.program_bytes > factory.program_bytes


def test_any_other_training_is_planned_by_its_time(split):
    algorithm = shadow.PythonFunction(train=lambda x, y, key: x.mean(0), version="1")
    factory = shadow.Factory(
        algorithm=algorithm, fixed=split.fixed, key=jax.random.key(0)
    )
    found = plan(factory, split.shadow, 50)
    assert found.flops is None
    assert found.params == 64


def paper(victim, num_fixed):
    """A factory of which nothing is trained here."""
    fixed = shadow.Examples(
        images=np.broadcast_to(np.float32(0), (num_fixed, *victim.image_shape)),
        labels=np.zeros(num_fixed, np.int32),
        num_classes=10,
    )
    algorithm = TrainingConfig().algorithm(victim)
    return shadow.Factory(algorithm=algorithm, fixed=fixed, key=jax.random.key(0))


def test_a_card_that_is_not_here_is_planned_by_its_data_sheet():
    """Within a factor of two of the roofline of the program compiled for an H100.

    That one has 4.4 ms a step of 512 models (1,160 models/s), of which 0.72 GB are
    temporary.
    """
    mnist = victims.build(
        victims.VictimConfig(), image_shape=(28, 28, 1), num_classes=10
    )
    found = planned_on(CARDS["h100"], paper(mnist, 10_000), 60_000)
    assert found.models_at_once == 512
    assert 1160 / 2 < found.models_per_s < 1160 * 2
    assert 0.5e9 < found.memory_bytes < 2e9
    assert not found.measured
    slower = planned_on(CARDS["l4"], paper(mnist, 10_000), 60_000)
    assert slower.models_per_s < found.models_per_s / 2
    # Twice the cards take half the time, but for the start of each.
    training = found.seconds(1) - found.seconds(2)
    assert training == pytest.approx(60_000 / found.models_per_s / 2)
    assert found.dollars(3.0, 2) == pytest.approx(6 * found.seconds(2) / 3600)


def test_work_grows_with_the_steps(victim):
    """XLA counts the body of a loop once; the plan counts it as often as it runs."""
    factory = paper(victim, 200)
    once = planned_on(CARDS["h100"], factory, 1000).models_per_s
    longer = dataclasses.replace(
        factory, algorithm=dataclasses.replace(factory.descent, epochs=1000)
    )
    assert planned_on(CARDS["h100"], longer, 1000).models_per_s == pytest.approx(
        once / 10, rel=0.01
    )


@pytest.mark.parametrize(("size", "steps"), [(1, 201), (200, 2), (100, 3), (500, 1)])
def test_steps_are_those_of_training(victim, size, steps):
    """200 known points and a target, in batches."""
    factory = paper(victim, 200)
    batched = dataclasses.replace(
        factory,
        algorithm=dataclasses.replace(factory.descent, batch_size=size, epochs=1),
    )
    assert planning._work(batched, 1).steps == steps


def test_a_program_larger_than_the_card_is_refused(victim):
    tiny = dataclasses.replace(CARDS["l4"], memory_bytes=1 << 16)
    with pytest.raises(MemoryError, match="NVIDIA L4 would need about"):
        planned_on(tiny, paper(victim, 200), 1000)
