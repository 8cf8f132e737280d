"""Ray's tasks with GPUs, on a node that says it has one which no JAX here can use."""

import functools

import jax
import numpy as np
import pytest

from shadow.launchers.launch import local
from tests.shadow import workers


def models(folder):
    return [store.read().weights for store in workers.prepare(str(folder))]


@pytest.fixture(scope="module")
def cards():
    pytest.importorskip("ray")
    from shadow.launchers import tasks

    ray = tasks.module()
    ray.init(num_cpus=2, num_gpus=1, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.mark.slow
def test_a_worker_with_a_gpu_that_jax_lacks_stops_at_once(tmp_path, cards, monkeypatch):
    from shadow.launchers.tasks import Ray
    from shadow.reserved import NoAcceleratorError

    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    prepare = functools.partial(workers.prepare, str(tmp_path))
    with pytest.raises(NoAcceleratorError, match=r"Ray reserved a GPU .*cuda12"):
        Ray(memory=1 << 28)(prepare, progress=False)


@pytest.mark.slow
def test_tasks_with_a_part_of_a_card_make_the_same_models(tmp_path, cards, monkeypatch):
    """Here their CPU is meant."""
    from shadow.launchers.tasks import Ray

    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    launch = Ray(memory=1 << 28, gpus=0.25, forward=())
    jax.config.update("jax_platforms", None)
    shared, alone = tmp_path / "shared", tmp_path / "alone"
    launch(functools.partial(workers.prepare, str(shared)), progress=False)
    assert jax.config.jax_platforms == "cpu", "the driver opens no card"
    local(functools.partial(workers.prepare, str(alone)), progress=False)
    for found, wanted in zip(models(shared), models(alone), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_the_part_of_a_card_is_a_part_of_its_memory(monkeypatch):
    from shadow.launchers import tasks

    class Remote:
        def __init__(self):
            self.given = {}

        def remote(self, **settings):
            return lambda function: self

        def options(self, **given):
            self.given = given
            return self

    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setenv("XLA_FLAGS", "--a")
    monkeypatch.setenv("MINE", "b")
    for gpus, fraction in ((0.25, "0.2250"), (1.0, None), (0.0, None)):
        task = tasks._task(Remote(), tasks.Ray(forward=("MINE",)), gpus)
        variables = task.given["runtime_env"]["env_vars"]
        assert variables.get("XLA_PYTHON_CLIENT_MEM_FRACTION") == fraction
        assert variables["XLA_FLAGS"] == "--a", "bits rest on them"
        assert variables["MINE"] == "b"
        assert variables.get("JAX_PLATFORMS") == (None if gpus else "cpu")
