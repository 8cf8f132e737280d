import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.decomposition import PCA

import shadow
from shadow.views import EVERYTHING, Layers, Logits, ViewConfig


@pytest.fixture
def thetas(victim, rng):
    return rng.normal(size=(70, victim.num_params)).astype(np.float32)


def test_layers_are_found_by_name(victim, thetas):
    """Against the victim's own parameters, array by array."""
    view = Layers.of(victim.layout, ["output"])
    for row, theta in zip(view(thetas[:3]), thetas, strict=False):
        params = victim.unflatten(jnp.asarray(theta))["output"]
        expected = np.concatenate([np.ravel(params["b"]), np.ravel(params["w"])])
        np.testing.assert_array_equal(row, expected)
    one = Layers.of(victim.layout, ["hidden_0/b"])
    np.testing.assert_array_equal(
        one(thetas[:1])[0], victim.unflatten(jnp.asarray(thetas[0]))["hidden_0"]["b"]
    )
    np.testing.assert_array_equal(EVERYTHING(thetas), thetas)
    assert view.fingerprint() != one.fingerprint() != EVERYTHING.fingerprint()


def test_chosen_layers_of_another_victim_are_refused(victim, rng):
    view = Layers.of(victim.layout, ("output",))
    longer = rng.normal(size=(2, victim.num_params + 1)).astype(np.float32)
    with pytest.raises(ValueError, match=f"{victim.num_params} parameters"):
        view(longer)


def test_an_unknown_layer_is_refused(victim):
    with pytest.raises(ValueError, match=r"'outptu'.*hidden_0/b.*output"):
        Layers.of(victim.layout, ["outptu"])
    with pytest.raises(ValueError, match="Unknown layer"):
        Layers.of(victim.layout, ["out"])  # names are whole


def test_logits_are_the_victims_answers(victim, thetas, digits):
    """More models than fit into one call, against one model at a time."""
    view = ViewConfig(kind="logits", probes=6).view(victim, digits.images)
    found = view(thetas)
    assert found.shape == (70, 60)
    for i in (0, 63, 64, 69):
        answers = victim.apply(
            victim.unflatten(jnp.asarray(thetas[i])), digits.images[:6]
        )
        np.testing.assert_allclose(found[i], np.ravel(answers), rtol=1e-4, atol=1e-4)
    fewer = ViewConfig(kind="logits", probes=5).view(victim, digits.images)
    assert view.fingerprint() != fewer.fingerprint()


def test_components_are_principal_and_strong(victim, thetas, digits):
    config = ViewConfig(kind="logits", probes=6, queries="components")
    view = config.view(victim, digits.images)
    assert view(thetas).shape == (70, 60)
    flat = digits.images.reshape(len(digits.images), -1).astype(np.float64)
    expected = PCA(6).fit(flat)
    probes = view.probes.reshape(6, -1)
    sizes = np.linalg.norm(probes, axis=1)
    deviations = np.sqrt(expected.explained_variance_)
    np.testing.assert_allclose(sizes, 30 * deviations, rtol=1e-5)
    cosines = np.sum(probes / sizes[:, None] * expected.components_, axis=1)
    np.testing.assert_allclose(np.abs(cosines), 1, atol=1e-5)
    images = ViewConfig(kind="logits", probes=6).view(victim, digits.images)
    assert view.fingerprint() != images.fingerprint()
    with pytest.raises(ValueError, match=r"probes <= 64, the pixels"):
        dataclasses.replace(config, probes=65).view(victim, digits.images)


@pytest.mark.slow
def test_of_a_convolutional_victim_too(rng):
    config = shadow.VictimConfig(architecture="cnn")
    victim = shadow.build_victim(config, image_shape=(16, 16, 3), num_classes=4)
    params = victim.init(jax.random.key(0))
    images = rng.random((3, 16, 16, 3)).astype(np.float32)
    theta = np.asarray(victim.flatten(params))[None]
    np.testing.assert_allclose(
        Logits(victim, images, "images")(theta)[0],
        np.ravel(victim.apply(params, images)),
        rtol=1e-4,
        atol=1e-5,
    )


def test_bad_input(victim, digits):
    with pytest.raises(ValueError, match=r"Expected kind.*'logit'.*'logits'"):
        ViewConfig(kind="logit")
    with pytest.raises(ValueError, match="Expected queries to be one of"):
        ViewConfig(kind="logits", queries="noise")
    with pytest.raises(ValueError, match=r"layers is of the kind 'weights'"):
        ViewConfig(kind="logits", layers=("output",))
    with pytest.raises(ValueError, match=r"probes <= 5.*got 6"):
        ViewConfig(kind="logits", probes=6).view(victim, digits.images[:5])
