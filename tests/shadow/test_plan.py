import dataclasses

import jax
import numpy as np
import pytest

import shadow
from informed.experiment.training_settings import TrainingConfig
from shadow import devices
from shadow.plan import plan


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
