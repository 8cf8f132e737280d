import dataclasses
import os
import platform
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shadow
from informed.experiment.training_settings import TrainingConfig
from shadow import devices, parallel, victims


@pytest.fixture
def make(victim, split, key):
    def made(width=4, role="shadow", **fields):
        return shadow.Factory(
            algorithm=TrainingConfig(epochs=5, **fields).algorithm(victim),
            fixed=split.fixed,
            key=key,
            role=role,
            width=width,
        )

    return made


def _same_in_any_company(make, split):
    weights = make().train(split.shadow)
    ids = np.arange(40)
    for chosen in (ids[::-1], ids[6:7], ids[2:], ids[[1, 39, 5, 21]]):
        found = make().train(split.shadow.take(chosen), ids=chosen)
        np.testing.assert_array_equal(found, weights[chosen])
    return weights


def test_a_models_bits_do_not_depend_on_its_company(make, split):
    weights = _same_in_any_company(make, split)
    if not devices.columns_alike():
        return
    # Where a product sums all columns alike, not on its number either.
    backwards = make().train(split.shadow.take(np.arange(40)[::-1]))
    np.testing.assert_array_equal(backwards[::-1], weights)
    alone = make().train(split.shadow.take(slice(6, 7)))
    np.testing.assert_array_equal(alone, weights[6:7])
    rest = make().train(split.shadow.take(slice(2, None)))
    np.testing.assert_array_equal(rest, weights[2:])


def test_nor_where_it_depends_on_a_place_in_the_batch(make, split, monkeypatch):
    """Here products may be alike: then this shows that places are kept."""
    monkeypatch.setattr(devices, "columns_alike", lambda: False)
    _same_in_any_company(make, split)


def test_equal_columns_differ_without_avx_512():
    """With oneDNN's kernels of such a processor bits don't depend on company either."""
    if platform.machine() != "x86_64":
        pytest.skip("oneDNN's kernels of x86-64 are meant")
    code = (
        "import pytest, sys;"
        f"code = pytest.main(['-q', '-p', 'no:cacheprovider', '-k', 'company',"
        f" {str(Path(__file__))!r}]);"
        "from shadow import devices; print('alike:', devices.columns_alike());"
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "alike: False" in done.stdout


@given(
    places=st.lists(st.integers(0, 30), min_size=1, max_size=40),
    width=st.integers(1, 9),
)
def test_every_row_stands_once_at_its_place(places, width):
    table = parallel.lanes(np.array(places), width)
    rows = table[table >= 0]
    assert sorted(rows) == list(range(len(places)))
    for row, place in enumerate(places):
        assert place % width == int(np.argwhere(table == row)[0, 1])
    if len(set(places)) == len(places):
        assert len(table) == len({place // width for place in places})


def test_width_changes_nothing_but_rounding(make, split):
    weights = [make(width=width).train(split.shadow) for width in (1, 4, 16)]
    np.testing.assert_allclose(weights[0], weights[1], atol=1e-6)
    np.testing.assert_allclose(weights[0], weights[2], atol=1e-6)


def test_every_model_is_the_algorithm_on_its_own_target(make, split):
    maker = make()
    weights = maker.train(split.shadow.take(slice(0, 3)))
    victim = maker.descent.victim
    train = jax.jit(maker.descent.train)
    init = victim.unflatten(jnp.asarray(maker.initialisation))
    for theta, image, label in zip(
        weights, split.shadow.images, split.shadow.labels, strict=False
    ):
        params = train(
            init,
            (split.fixed.images, split.fixed.labels),
            (image, label),
            maker.public_key,
        )
        np.testing.assert_allclose(victim.flatten(params), theta, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [{"initialisation": "random"}, {"batch_size": 10, "shuffling": "unknown"}],
    ids=str,
)
def test_private_randomness_is_a_models_own(make, split, fields):
    twin = split.shadow.take(np.array([0, 0]))
    first, second = make(**fields).train(twin)
    assert np.abs(first - second).max() > 1e-4, "the same target, other randomness"
    third = make(role="released", **fields).train(twin)[0]
    assert np.abs(first - third).max() > 1e-4, "released models have their own stream"
    moved = make(**fields).train(twin.take(slice(1, 2)), ids=np.array([1]))[0]
    np.testing.assert_array_equal(moved, second)


def test_public_randomness_is_the_same_for_all(make, split):
    twin = split.shadow.take(np.array([0, 0]))
    first, second = make(batch_size=10).train(twin)
    np.testing.assert_array_equal(first, second)
    released = make(batch_size=10, role="released").train(twin)[0]
    np.testing.assert_array_equal(first, released)


def test_the_fixed_set_is_not_copied_per_model(rng):
    """Working memory of a batch is far below one copy of D_- a model."""
    fixed = shadow.Examples(
        images=rng.random((500, 28, 28, 1), dtype=np.float32),
        labels=np.zeros(500, np.int32),
        num_classes=10,
    )
    victim = victims.build(
        victims.VictimConfig(), image_shape=(28, 28, 1), num_classes=10
    )
    for batch_size in (None, 100):
        maker = shadow.Factory(
            algorithm=TrainingConfig(epochs=2, batch_size=batch_size).algorithm(victim),
            fixed=fixed,
            key=jax.random.key(0),
            width=16,
        )
        program = maker._runs._program
        ids = np.arange(16, dtype=np.int32)
        lowered = program.func.lower(
            *program.args,
            (fixed.images, fixed.labels),
            fixed.images[:16, None],
            fixed.labels[:16, None],
            ids,
        )
        memory = lowered.compile().memory_analysis()
        assert memory.temp_size_in_bytes < 16 * fixed.images.nbytes / 4


def test_divergence_is_an_error_that_names_the_model(make, split):
    with pytest.raises(FloatingPointError, match=r"shadow models, such as number 20"):
        make(learning_rate=1e38).train(split.shadow, ids=np.arange(20, 60))


def test_bad_arguments_are_refused(make, split, digits):
    with pytest.raises(ValueError, match=r"role to be one of"):
        make(role="victim")
    with pytest.raises(ValueError, match=r"width >= 1, got 0"):
        make(width=0)
    wrong = dataclasses.replace(split.fixed, images=split.fixed.images[:, :7])
    with pytest.raises(ValueError, match=r"shape \(8, 8, 1\).*got \(7, 8, 1\)"):
        dataclasses.replace(make(), fixed=wrong)
    with pytest.raises(ValueError, match=r"shape \(8, 8, 1\).*got \(7, 8, 1\)"):
        make().train(wrong)
    more = dataclasses.replace(split.shadow, num_classes=11)
    with pytest.raises(ValueError, match=r"10 classes.*got 11 in digits"):
        make().train(more)
    with pytest.raises(ValueError, match="at least one target"):
        make().train(split.shadow.take(slice(0, 0)))
    for ids in (np.arange(3), np.zeros(len(split.shadow))):
        with pytest.raises(ValueError, match="ids to be 40 whole numbers"):
            make().train(split.shadow, ids=ids)
    with pytest.raises(ValueError, match="draws a theta_0 of its own"):
        dataclasses.replace(
            make(initialisation="random"), start=np.zeros(9, np.float32)
        )


def test_small_blocks_are_filled_together(make, split, tmp_path):
    """More models at once than a block holds: no batch is mostly padding."""
    stores = []
    for width in (4, 32):
        maker = make(width=width)
        store = shadow.Store.open(
            tmp_path / str(width), maker, split.shadow, block_size=6
        )
        commits = []
        store.fill(progress=False, on_block=lambda commits=commits: commits.append(1))
        assert len(commits) == store.num_blocks == 7
        stores.append(store.read())
    np.testing.assert_allclose(stores[0].weights, stores[1].weights, atol=1e-6)
    np.testing.assert_array_equal(stores[1].images, split.shadow.images)


def test_blocks_that_others_commit_meanwhile_are_left_out(make, split, tmp_path):
    """Two workers, one within a pause of the other; each block is trained once."""

    def opened():
        maker = make(width=4)
        return shadow.Store.open(tmp_path / "store", maker, split.shadow, block_size=8)

    ours, theirs = [], []

    def pause():
        ours.append(1)
        if len(ours) == 2:
            left = opened().missing()
            opened().fill(blocks=left[:2], on_block=lambda: theirs.append(1))

    opened().fill(progress=False, on_block=pause)
    assert (len(ours), len(theirs)) == (3, 2)
    store = opened()
    assert store.missing() == store.verify() == []
    np.testing.assert_array_equal(store.read().weights, make().train(split.shadow))


@pytest.mark.slow
def test_two_devices_make_the_models_of_one(tmp_path):
    """At MNIST's size, where thin products are summed in another order."""
    program = """
import sys, jax, numpy as np, shadow
rng = np.random.default_rng(0)
def made(count):
    return shadow.Examples(images=rng.random((count, 28, 28, 1), dtype=np.float32),
        labels=rng.integers(0, 10, count), num_classes=10)
victim = shadow.build_victim(
    shadow.VictimConfig(), image_shape=(28, 28, 1), num_classes=10)
descent = shadow.GradientDescent(victim=victim, epochs=10)
factory = shadow.Factory(algorithm=descent,
    fixed=made(1000), key=jax.random.key(0), width=4)
assert factory.models_at_once == 4 * int(sys.argv[2])
np.save(sys.argv[1], factory.train(made(11)))
"""
    found = []
    for count in (1, 2):
        flags = f"--xla_force_host_platform_device_count={count}"
        file = tmp_path / f"{count}.npy"
        subprocess.run(
            [sys.executable, "-c", program, str(file), str(count)],
            env=os.environ | {"XLA_FLAGS": flags},
            check=True,
        )
        found.append(np.load(file))
    assert found[0].shape == (11, 7960)
    np.testing.assert_allclose(found[0], found[1], atol=2e-6)


@pytest.mark.parametrize(
    "fields",
    [{}, {"initialisation": "random"}, {"batch_size": 10, "shuffling": "unknown"}],
)
def test_both_roles_are_compiled_once(make, split, fields):
    """And each has the bits that it has alone; another theta_0 is another program."""
    first = make(**fields)
    algorithm = first.algorithm
    other = dataclasses.replace(first, role="released")
    apart = dataclasses.replace(other, algorithm=dataclasses.replace(algorithm))
    alone = apart.train(split.test)

    def programs():
        return sum(own is algorithm for _, own in parallel._compiled.values())

    first.train(split.shadow)
    np.testing.assert_array_equal(other.train(split.test), alone)
    assert programs() == 1
    if not fields:
        dataclasses.replace(first, key=jax.random.key(7)).train(split.test)
        assert programs() == 2


def test_other_generators_are_refused(split, victim):
    descent = TrainingConfig().algorithm(victim)
    with pytest.raises(ValueError, match="threefry2x32, got rbg"):
        shadow.Factory(
            algorithm=descent, fixed=split.fixed, key=jax.random.key(0, impl="rbg")
        )
