import dataclasses
import functools
import multiprocessing

import jax
import numpy as np
import pytest

import shadow
from shadow.launchers import local
from shadow.launchers.share import Share
from tests.shadow import workers


def models(folder):
    """Weights of both stores, checked against their checksums."""
    return [work.store.read().weights for work in workers.prepare(str(folder))]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What one process makes on its own."""
    folder = tmp_path_factory.mktemp("undisturbed")
    local.run(functools.partial(workers.prepare, str(folder)), progress=False)
    return models(folder)


def assert_same(folder, expected):
    for found, wanted in zip(models(folder), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_workers_that_know_nothing_of_each_other(tmp_path, undisturbed):
    prepare = functools.partial(workers.prepare, str(tmp_path))
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(
            target=Share(index=index, count=3).run,
            args=(prepare,),
            kwargs={"progress": False},
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
        target=Share(index=0, count=2).run, args=(prepare,)
    )
    process.start()
    process.join()
    assert process.exitcode == -9
    Share(index=1, count=2).run(prepare, progress=False)
    assert_same(tmp_path, undisturbed)


@pytest.mark.parametrize("text", ["3", "3/x", "4/4", "-1/4", "1/0", ""])
def test_a_share_that_isnt_one_is_refused(text):
    with pytest.raises(ValueError, match=r"such as 3/16|\[0, |>= 1"):
        Share.parse(text)


def test_a_share_is_read():
    assert Share.parse("3/16") == Share(index=3, count=16)


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
    from shadow.launchers.tasks import RayTasks

    return RayTasks(memory=1 << 28)


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
    assert workers.prepare(str(tmp_path))[0].store.missing() == [1]


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
    from shadow.launchers import Work, tasks

    algorithm = shadow.GradientDescent(
        victim=victim, training=shadow.TrainingConfig(epochs=2)
    )
    factory = shadow.Factory(
        algorithm=algorithm, fixed=split.fixed, key=jax.random.key(0)
    )
    store = shadow.Store.open(tmp_path, factory, split.shadow, block_size=16)
    work = Work(factory=factory, store=store, targets=split.shadow)
    assert factory.models_at_once > 16
    assert tasks._for_a_block(work).factory.models_at_once == 16
    narrow = dataclasses.replace(factory, width=2)
    same = dataclasses.replace(work, factory=narrow)
    assert tasks._for_a_block(same) is same
