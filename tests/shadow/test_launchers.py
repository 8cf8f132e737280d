import dataclasses
import functools
import multiprocessing
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shadow
from informed.experiment.training_settings import TrainingConfig
from shadow.launchers.launch import local
from shadow.launchers.share import Share
from tests.shadow import workers


def models(folder):
    """Weights of both stores, checked against their checksums."""
    return [store.read().weights for store in workers.prepare(str(folder))]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What one process makes on its own."""
    folder = tmp_path_factory.mktemp("undisturbed")
    local(functools.partial(workers.prepare, str(folder)), progress=False)
    return models(folder)


def assert_same(folder, expected):
    for found, wanted in zip(models(folder), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_workers_that_know_nothing_of_each_other(tmp_path, undisturbed):
    prepare = functools.partial(workers.prepare, str(tmp_path))
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(
            target=Share(index, of=3), args=(prepare,), kwargs={"progress": False}
        )
        for index in (0, 1)  # the third never comes
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert_same(tmp_path, undisturbed)


def test_what_a_killed_worker_leaves_is_swept_up(tmp_path, undisturbed):
    die = tmp_path / "die"
    die.touch()
    prepare = functools.partial(workers.prepare, str(tmp_path), die=str(die))
    process = multiprocessing.get_context("spawn").Process(
        target=Share(0, of=2), args=(prepare,)
    )
    process.start()
    process.join()
    assert process.exitcode == -9
    Share(1, of=2)(prepare, progress=False)
    assert_same(tmp_path, undisturbed)


@pytest.mark.parametrize("text", ["3", "3/x", "4/4", "-1/4", "1/0", ""])
def test_a_share_that_isnt_one_is_refused(text):
    with pytest.raises(ValueError, match=r"such as 3/16|\[0, |>= 1"):
        Share.parse(text)
    assert Share.parse("3/16") == Share(3, of=16)


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one core on this machine."""
    pytest.importorskip("ray")
    tasks = pytest.importorskip("shadow.launchers.tasks")
    ray = tasks.module()
    from ray.cluster_utils import Cluster

    for attempt in range(3):  # a node that isn't up in 30 s is given up by Ray
        cluster = Cluster()
        try:
            cluster.add_node(num_cpus=1, include_dashboard=False)
            cluster.add_node(num_cpus=1)
            break
        except Exception:
            cluster.shutdown()
            if attempt == 2:
                raise
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def on_ray(cluster):
    from shadow.launchers.tasks import Ray

    return Ray(memory=1 << 28)


@pytest.mark.slow
def test_ray_makes_the_same_bytes_though_a_worker_is_killed(
    tmp_path, on_ray, undisturbed
):
    die = tmp_path / "die"
    die.touch()
    blocks = []
    on_ray(
        functools.partial(workers.prepare, str(tmp_path), die=str(die)),
        progress=False,
        on_block=lambda: blocks.append(1),
    )
    assert not die.exists()
    assert len(blocks) == 2 + 11
    assert_same(tmp_path, undisturbed)


@pytest.mark.slow
def test_a_straggler_is_not_waited_for(tmp_path, on_ray, undisturbed):
    hang = tmp_path / "hang"
    hang.touch()
    prepare = functools.partial(workers.prepare, str(tmp_path), hang=str(hang))
    on_ray(prepare, progress=False)
    assert not hang.exists()
    assert_same(tmp_path, undisturbed)


@pytest.mark.slow
def test_ray_sets_a_block_aside_that_always_raises(tmp_path, on_ray):
    prepare = functools.partial(workers.prepare, str(tmp_path), poison=1)
    with pytest.raises(RuntimeError, match=r"Blocks 1 of .*released.*a poisoned block"):
        on_ray(prepare, progress=False)
    assert workers.prepare(str(tmp_path))[0].missing() == [1]


@pytest.mark.slow
def test_a_lost_node_is_made_up_for(tmp_path, cluster, on_ray, undisturbed):
    node = cluster.add_node(num_cpus=1)
    seen = []

    def lose():
        seen.append(1)
        if len(seen) == 4:
            cluster.remove_node(node, allow_graceful=False)

    prepare = functools.partial(workers.prepare, str(tmp_path))
    on_ray(prepare, progress=False, on_block=lose)
    assert_same(tmp_path, undisturbed)


def test_a_task_trains_no_more_models_than_its_block_has(
    tmp_path, victim, split, accelerator
):
    """On an accelerator 512 would be trained, and all but a block thrown away."""
    from shadow.launchers import tasks

    algorithm = TrainingConfig(epochs=2).algorithm(victim)
    factory = shadow.Factory(
        algorithm=algorithm, fixed=split.fixed, key=jax.random.key(0)
    )
    store = shadow.Store.open(tmp_path, factory, split.shadow, block_size=16)
    assert factory.models_at_once > 16
    assert tasks._for_a_block(store).factory.models_at_once == 16
    narrow = store.made_by(dataclasses.replace(factory, width=2), store._targets)
    assert tasks._for_a_block(narrow) is narrow


def python_store(folder):
    """A store as a Python program opens it, with a network of its own."""

    def apply(params, images):
        return jnp.tanh(images.reshape(len(images), -1) @ params["w"])

    pool = shadow.load("digits")
    split = shadow.split(pool, num_fixed=50, num_shadow=42, num_test=6, seed=0)
    victim = shadow.from_functions(
        lambda key: {"w": jax.random.normal(key, (64, 10)) / 8},
        apply,
        image_shape=(8, 8, 1),
        num_classes=10,
    )
    algorithm = TrainingConfig(epochs=5).algorithm(victim)
    factory = shadow.Factory(
        algorithm=algorithm, fixed=split.fixed, key=jax.random.key(0), width=4
    )
    return shadow.Store.open(folder, factory, split.shadow, block_size=8)


def test_a_store_to_be_read_is_not_filled(tmp_path):
    store = python_store(tmp_path)
    with pytest.raises(ValueError, match="opened to be read"):
        shadow.Store(tmp_path).fill()
    with pytest.raises(ValueError, match="blocks or a launcher, got both"):
        store.fill(blocks=[0], launcher=shadow.Share(0, of=2))


def test_a_store_reaches_another_process_with_its_factory(tmp_path):
    """As Ray sends it: functions by value, keys and data with it."""
    cloudpickle = pytest.importorskip("cloudpickle")
    store = python_store(tmp_path)
    (sent,) = pickle.loads(cloudpickle.dumps(functools.partial(tuple, [store])))()
    assert sent.factory.identity == store.factory.identity
    sent.fill(progress=False)
    weights = store.factory.train(sent._targets)
    np.testing.assert_array_equal(store.read().weights, weights)
    reopened, arguments = store.__reduce__()
    with pytest.raises(shadow.VersionMismatchError, match=r"jax: '0\.1' there"):
        reopened(*arguments[:-1], arguments[-1] | {"jax": "0.1"})


@pytest.mark.slow
def test_a_store_is_filled_on_ray(tmp_path, cluster):
    store = python_store(tmp_path / "ray")
    store.fill(launcher=shadow.Ray(memory=1 << 28), progress=False)
    alone = python_store(tmp_path / "alone")
    alone.fill(progress=False)
    np.testing.assert_array_equal(store.read().weights, alone.read().weights)
