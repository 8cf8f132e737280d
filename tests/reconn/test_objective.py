import jax.numpy as jnp
import numpy as np
import pytest

import reconn
from reconn import Loss, objective
from shadow import ShadowModels
from tests.reconn.planted import history, read_out, train


def test_pixels_against_numpy(rng):
    one, two = rng.random((2, 3, 4, 4, 1)).astype(np.float32)
    found = objective.pixels(jnp.asarray(one), jnp.asarray(two), Loss(mae=0.5, mse=3.0))
    expected = 0.5 * np.abs(one - two).mean() + 3 * ((one - two) ** 2).mean()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_least_squares_game_has_its_equilibrium():
    """Where made and real can't be told apart, 1/2 is the judge's best score."""
    scores = jnp.linspace(0, 1, 101)
    costs = [float(objective.judged(s[None], s[None])) for s in scores]
    assert scores[np.argmin(costs)] == 0.5
    assert objective.judged(jnp.ones(3), jnp.zeros(3)) == 0
    assert objective.fooled(jnp.ones(3)) == 0


@pytest.fixture
def models(digits, rng):
    images = digits.images[:64]
    weights = images.reshape(64, 64) @ rng.normal(size=(64, 30)).astype(np.float32)
    return ShadowModels(weights=weights, images=images, labels=digits.labels[:64])


@pytest.mark.slow
def test_a_discriminator_learns_beside(models, key, tmp_path):
    """It moves, is kept in the checkpoint, and a longer run goes on with it."""

    def config(adversarial):
        return reconn.Network(
            module=reconn.mlp(widths=(32,)),
            epochs=4,
            batch_size=16,
            loss=Loss(adversarial=adversarial, discriminator_learning_rate=1e-3),
        )

    runs = {}
    for weight in (0.0, 1.0):
        workdir = tmp_path / str(weight)
        train(models, config(weight), key=key, workdir=workdir)
        runs[weight] = [line["train_loss"] for line in history(workdir)]
        loaded = reconn.load(workdir)
        assert np.isfinite(read_out(loaded, models.weights)).all()
    # The judge first sees through the RecoNN, which costs about 1 a patch.
    assert runs[1.0][0] > runs[0.0][0] + 0.1


def test_lpips_without_its_extra_names_it(models, key, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"\.\[lpips\]"):
        train(
            models,
            reconn.Network(epochs=1, loss=Loss(lpips=1.0)),
            key=key,
            workdir=tmp_path,
        )


@pytest.mark.slow
def test_lpips_is_a_term(models, key, tmp_path, monkeypatch, rng):
    """With random weights for AlexNet, since the extra need not be there."""
    sizes = ((11, 3, 64), (5, 64, 192), (3, 192, 384), (3, 384, 256), (3, 256, 256))
    lpips = reconn.perceptual.Lpips(
        kernels=tuple(
            jnp.asarray(
                rng.normal(0, (side * side * ins) ** -0.5, (side, side, ins, outs)),
                jnp.float32,
            )
            for side, ins, outs in sizes
        ),
        biases=tuple(jnp.zeros(outs) for _, _, outs in sizes),
        weights=tuple(jnp.ones(outs) / outs for _, _, outs in sizes),
    )
    monkeypatch.setattr(reconn.perceptual, "load", lambda: lpips)
    first = []
    for weight in (0.0, 1.0):
        workdir = tmp_path / str(weight)
        config = reconn.Network(
            module=reconn.mlp(widths=(32,), input_dropout=0.0, dropout=0.0),
            epochs=1,
            batch_size=60,
            loss=Loss(lpips=weight),
        )
        train(models, config, key=key, workdir=workdir)
        first.append(history(workdir)[0]["train_loss"])
    assert first[1] > first[0]
