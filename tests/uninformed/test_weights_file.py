"""Networks of other programs: names, orders and orientations; what isn't clear."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from shadow import safetensors
from uninformed import homogeneous, kkt, weights_file
from uninformed.homogeneous import HomogeneousConfig
from uninformed.kkt import KktConfig

INPUTS, WIDTHS = 6, (5, 5)
CONFIG = HomogeneousConfig(widths=WIDTHS, first_scale=0.5)
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
    return homogeneous.init(CONFIG, INPUTS, jax.random.key(0))


def named(network, naming, number=lambda i: i):
    w, b, turned = NAMINGS[naming]
    arrays = {}
    for i, layer in enumerate(network):
        arrays[w.format(number(i))] = np.asarray(layer.w.T if turned else layer.w)
        bias = np.zeros(layer.w.shape[1]) if layer.b is None else np.asarray(layer.b)
        arrays[b.format(number(i))] = bias
    return arrays


def assert_same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.w, b.w)
        assert (a.b is None) == (b.b is None)
        if a.b is not None:
            np.testing.assert_array_equal(a.b, b.b)


@pytest.mark.parametrize("naming", NAMINGS)
@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_every_naming_is_read_alike(naming, ending, network, tmp_path):
    """Zero biases behind the first layer are none; layer 10 comes after layer 8."""
    file = tmp_path / f"victim.{ending}"
    arrays = named(network, naming, number=lambda i: 2 * i + 6)
    if ending == "npz":
        np.savez(file, **arrays)
    else:
        safetensors.write(file, dict(sorted(arrays.items())))
    assert_same(weights_file.read(file, INPUTS), network)


def test_arrays_without_names_are_taken_in_their_order(network, tmp_path):
    file = tmp_path / "victim.npz"
    first, *rest = network
    np.savez(file, first.w, first.b, *(layer.w for layer in rest))
    assert_same(weights_file.read(file, INPUTS), network)


def test_square_matrices_are_read_by_their_names_or_not_at_all(tmp_path, rng):
    file = tmp_path / "victim.npz"
    one, two = rng.standard_normal((2, 4, 4)).astype(np.float32)
    for names, turned in (("{}.weight", True), ("l{}/w", False), ("l{}/kernel", False)):
        np.savez(file, **{names.format(0): one, names.format(1): two})
        found = weights_file.read(file, 4)
        np.testing.assert_array_equal(found[0].w, one.T if turned else one)
    np.savez(file, w0=one, w1=two)
    with pytest.raises(ValueError, match="square matrices alone"):
        weights_file.read(file, 4)


def test_biases_behind_the_first_layer_need_weight_decay(network, tmp_path):
    file = tmp_path / "victim.npz"
    arrays = named(network, "torch") | {"1.bias": np.ones(WIDTHS[1])}
    np.savez(file, **arrays)
    with pytest.raises(ValueError, match=r"^1\.bias in victim\.npz isn't 0\. .*signed"):
        weights_file.read(file, INPUTS)
    assert weights_file.read(file, INPUTS, homogeneous=False)[1].b is not None


def test_bfloat16_is_read(network, tmp_path):
    arrays = named(network, "torch")
    rounded = {name: a.astype(ml_dtypes.bfloat16) for name, a in arrays.items()}
    safetensors.write(tmp_path / "v.safetensors", rounded)
    found = weights_file.read(tmp_path / "v.safetensors", INPUTS)
    assert found[0].w.dtype == jnp.float32


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"0.weight": np.ones((5, 7))}, "dense layers of a network of 6 inputs"),
        ({"0.weight": np.ones((5, 3, 3, 3))}, r"0\.weight .* dense layers have"),
        ({"0.weight": np.full((5, 6), np.nan)}, r"0\.weight .* NaN"),
        ({"3.num_batches_tracked": np.array(7)}, "num_batches_tracked"),
        ({"3.running_mean": np.ones(5)}, r"victim\.npz"),
        ({"norm.weight": np.ones(5), "norm.bias": np.ones(5)}, "two arrays like norm"),
        ({"norm.bias": np.ones(5)}, "no matrix"),
    ],
)
def test_what_is_not_dense_layers_is_refused_by_name(change, match, network, tmp_path):
    np.savez(tmp_path / "victim.npz", **named(network, "torch") | change)
    with pytest.raises(ValueError, match=match):
        weights_file.read(tmp_path / "victim.npz", INPUTS)


def test_an_order_that_is_not_clear_is_refused(tmp_path, rng):
    named = {f"{name}.weight": rng.standard_normal((4, 4)) for name in "ba"}
    np.savez(tmp_path / "victim.npz", **named)
    with pytest.raises(ValueError, match="tell the order of its layers"):
        weights_file.read(tmp_path / "victim.npz", 4)


@pytest.mark.parametrize("ending", ["pt", "pth", "pkl", "h5"])
def test_pickles_are_refused_with_a_way_out(ending, tmp_path):
    with pytest.raises(ValueError, match=r"safetensors\.torch\.save_file"):
        weights_file.read(tmp_path / f"victim.{ending}", 4)


def test_an_attack_on_a_file_is_that_on_the_network(network, tmp_path, key):
    file = tmp_path / "victim.safetensors"
    safetensors.write(file, named(network, "torch"))
    release, knowledge = kkt.released(weights_file.read(file, INPUTS), (3, 2, 1))
    config = KktConfig(candidates=4, steps=3)
    found = kkt.Attack(config=config)(release, knowledge, key=key)
    (run,) = kkt.attack_many(config, network, keys=key[None])
    np.testing.assert_array_equal(found.points[0], run.points)
    np.testing.assert_array_equal(found.scores[0], run.multipliers)
