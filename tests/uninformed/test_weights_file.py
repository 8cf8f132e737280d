"""Networks of other programs: names, orders and orientations; what isn't clear."""

import os
import subprocess
import sys

import jax
import ml_dtypes
import numpy as np
import pytest

from shadow import safetensors
from uninformed import homogeneous, kkt, weights_file
from uninformed.homogeneous import HomogeneousConfig
from uninformed.kkt import KktConfig

INPUTS = 6
# Names of layer i's weights and biases, and whether a matrix is (units, inputs).
NAMINGS = {
    "torch": ("{}.weight", "{}.bias", True),
    "torch, nested": ("layers.{}.weight", "layers.{}.bias", True),
    "haiku": ("mlp/~/linear_{}/w", "mlp/~/linear_{}/b", False),
    "flax": ("params/Dense_{}/kernel", "params/Dense_{}/bias", False),
    "ours": ("w{}", "b{}", False),
}


@pytest.fixture(scope="module")
def network() -> homogeneous.DenseLayers:
    config = HomogeneousConfig(widths=(5, 5), first_scale=0.5)
    return homogeneous.init(config, INPUTS, jax.random.key(0))


def named(network, naming="torch", number=lambda i: i):
    w, b, turned = NAMINGS[naming]
    arrays = {}
    for i, layer in enumerate(network):
        arrays[w.format(number(i))] = np.asarray(layer.w.T if turned else layer.w)
        bias = np.zeros(layer.w.shape[1]) if layer.b is None else np.asarray(layer.b)
        arrays[b.format(number(i))] = bias
    return arrays


def assert_same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.parametrize("naming", NAMINGS)
def test_every_naming_is_read_alike(naming, network, tmp_path):
    """Zero biases behind the first layer are none; layer 10 comes after layer 8."""
    arrays = named(network, naming, number=lambda i: 2 * i + 6)
    np.savez(tmp_path / "v.npz", **arrays)
    safetensors.write(tmp_path / "v.safetensors", dict(sorted(arrays.items())))
    for ending in ("npz", "safetensors"):
        assert_same(weights_file.read(tmp_path / f"v.{ending}", INPUTS), network)


def test_arrays_without_names_are_taken_in_their_order(network, tmp_path):
    first, *rest = network
    np.savez(tmp_path / "v.npz", first.w, first.b, *(layer.w for layer in rest))
    assert_same(weights_file.read(tmp_path / "v.npz", INPUTS), network)


def test_square_matrices_are_read_by_their_names_or_not_at_all(tmp_path, rng):
    file = tmp_path / "v.npz"
    one, two = rng.standard_normal((2, 4, 4)).astype(np.float32)
    for names, turned in (("{}.weight", True), ("l{}/w", False), ("l{}/kernel", False)):
        np.savez(file, **{names.format(0): one, names.format(1): two})
        found = weights_file.read(file, 4)
        np.testing.assert_array_equal(found[0].w, one.T if turned else one)
    np.savez(file, w0=one, w1=two)
    with pytest.raises(ValueError, match="square matrices alone"):
        weights_file.read(file, 4)


def test_biases_behind_the_first_layer_need_weight_decay(network, tmp_path):
    np.savez(tmp_path / "v.npz", **named(network) | {"1.bias": np.ones(5)})
    with pytest.raises(ValueError, match=r"v\.npz has biases behind .*signed"):
        weights_file.read(tmp_path / "v.npz", INPUTS)
    found = weights_file.read(tmp_path / "v.npz", INPUTS, any_biases=True)
    assert found[1].b is not None


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"0.weight": np.ones((5, 7))}, "dense layers of a network of 6 inputs"),
        ({"0.weight": np.ones((5, 3, 3, 3))}, r"0\.weight .* layers have"),
        ({"0.weight": np.full((5, 6), np.nan)}, r"0\.weight .* finite"),
        ({"3.num_batches_tracked": np.array(7)}, "num_batches_tracked"),
        (
            {"norm.weight": np.ones(5), "norm.bias": np.ones(5)},
            "a matrix and at most one .*'norm'",
        ),
        ({"norm.bias": np.ones(5)}, "a matrix and at most one .*'norm'"),
    ],
)
def test_what_is_not_dense_layers_is_refused_by_name(change, match, network, tmp_path):
    np.savez(tmp_path / "v.npz", **named(network) | change)
    with pytest.raises(ValueError, match=match):
        weights_file.read(tmp_path / "v.npz", INPUTS)


SAVE = """
import sys
import jax, numpy as np, orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
arrays, folder = np.load(sys.argv[1]), sys.argv[2]
mesh = Mesh(np.array(jax.devices()).reshape(2), "d")
over_devices = NamedSharding(mesh, PartitionSpec(None, "d"))
tree = {"params": {}}
for i, name in enumerate(("0.weight", "1.weight")):
    kernel = jax.device_put(arrays[name].T, over_devices)
    tree["params"][f"Dense_{i}"] = {"kernel": kernel}
with ocp.CheckpointManager(folder) as manager:
    for step, factor in ((3, 2.0), (10, 1.0)):
        scaled = jax.tree.map(lambda a: factor * a, tree)
        manager.save(step, args=ocp.args.StandardSave(scaled))
"""


def test_a_checkpoint_of_two_devices_is_read_on_one(tmp_path, rng):
    arrays = {
        "0.weight": rng.standard_normal((4, INPUTS)).astype(np.float32),
        "1.weight": rng.standard_normal((2, 4)).astype(np.float32),
    }
    np.savez(tmp_path / "v.npz", **arrays)
    folder = tmp_path / "steps"
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    command = [sys.executable, "-c", SAVE, str(tmp_path / "v.npz"), str(folder)]
    subprocess.run(command, env=os.environ | flags, check=True)
    wanted = weights_file.read(tmp_path / "v.npz", INPUTS)
    assert_same(weights_file.read(folder, INPUTS), wanted)  # the latest step
    assert_same(weights_file.read(folder / "10" / "default", INPUTS), wanted)
    (doubled,) = weights_file.read(folder / "3", INPUTS)[:1]
    np.testing.assert_array_equal(doubled.w, 2 * wanted[0].w)
    with pytest.raises(ValueError, match="one checkpoint of Orbax, got 0"):
        weights_file.read(tmp_path, INPUTS)


def test_pickles_are_refused_with_a_way_out(tmp_path):
    with pytest.raises(ValueError, match=r"safetensors\.torch\.save_file"):
        weights_file.read(tmp_path / "v.pt", INPUTS)


def test_an_attack_on_a_file_is_that_on_the_network(network, tmp_path, key):
    """Weights in bfloat16 are exact in float32."""
    low = {n: a.astype(ml_dtypes.bfloat16) for n, a in named(network).items()}
    safetensors.write(tmp_path / "v.safetensors", low)
    theirs = weights_file.read(tmp_path / "v.safetensors", INPUTS)
    release, knowledge = weights_file.released(theirs, (3, 2, 1))
    config = KktConfig(candidates=4, steps=3)
    found = kkt.Attack(config=config)(release, knowledge, key=key)
    rounded = jax.tree.map(lambda a: a.astype("bfloat16").astype("float32"), network)
    (run,) = kkt.attack_many(config, rounded, keys=key[None])
    np.testing.assert_array_equal(found.points[0], run.points)
    np.testing.assert_array_equal(found.scores[0], run.multipliers)
