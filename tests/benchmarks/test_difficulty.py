"""The papers' diagnostics of released models, against loops and differences."""

import dataclasses

import jax
import numpy as np
import optax
import pytest
from sklearn.metrics import roc_auc_score

import shadow
from benchmarks.papers.balle import difficulty as diagnostics
from informed.experiment.training_settings import TrainingConfig


@pytest.fixture(scope="module")
def factory(digits):
    split = shadow.split(digits, num_fixed=60, num_shadow=40, num_test=20, seed=0)
    return shadow.Factory(
        algorithm=TrainingConfig(epochs=30).algorithm(
            shadow.build_victim(
                shadow.VictimConfig(widths=(6,)), image_shape=(8, 8, 1), num_classes=10
            )
        ),
        fixed=split.fixed,
        key=jax.random.key(0),
        role="released",
    )


@pytest.fixture(scope="module")
def targets(digits):
    split = shadow.split(digits, num_fixed=60, num_shadow=40, num_test=20, seed=0)
    return split.test


def test_the_embedding_keeps_groups_apart(rng):
    """Two groups of models: everyone's nearest neighbour is of their own group."""
    group = np.repeat([0, 1], 30)
    weights = rng.normal(size=(60, 40)) + 8 * group[:, None] * rng.normal(size=40)
    weights[:, 3] = 1.0  # doesn't vary
    places = diagnostics.embedding(weights.astype(np.float32), seed=0)
    distances = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert np.mean(group[distances.argmin(axis=1)] == group) == 1
    with pytest.raises(ValueError, match="No weight varies"):
        diagnostics.embedding(np.ones((5, 3), np.float32), seed=0)


def test_gradients_against_finite_differences(factory, targets):
    some = targets.take(np.arange(2))
    found = diagnostics.gradients(factory, some)
    assert found.norms.shape == (2, factory.descent.epochs)
    assert found.layers == ("hidden_0/b", "hidden_0/w", "output/b", "output/w")
    weights = factory.train(some)
    slopes = np.empty(weights.shape[1])
    for i in range(len(slopes)):
        ends = np.repeat(weights[:1], 2, axis=0)
        ends[:, i] += (0.02, -0.02)
        low_high = diagnostics.target_losses(
            factory.descent.victim, ends, some.take(np.arange(1))
        )[:, 0]
        slopes[i] = (low_high[0] - low_high[1]) / (ends[0, i] - ends[1, i])
    assert found.norms[0, -1] == pytest.approx(np.linalg.norm(slopes), rel=0.01)


def test_an_epoch_is_that_of_a_shorter_training(factory, targets):
    """Mini-batches in a known order: the gradient after the third of five epochs."""
    some = targets.take(np.arange(1))
    found = {}
    for epochs in (3, 5):
        changed = dataclasses.replace(factory.descent, epochs=epochs, batch_size=16)
        own = dataclasses.replace(factory, algorithm=changed)
        found[epochs] = diagnostics.gradients(own, some).norms[0]
    np.testing.assert_allclose(found[5][:3], found[3], rtol=1e-5)
    assert abs(found[5][4] / found[3][2] - 1) > 1e-3


def test_a_random_initialisation_hides_the_target(factory, targets):
    """Appendix A: with a shared one the loss tells, with a random one much less."""
    found = {}
    for kind in ("shared", "random"):
        changed = dataclasses.replace(
            factory.descent,
            initialisation=kind,
            optimiser=optax.sgd(0.02, momentum=0.9),
            epochs=60,
        )
        found[kind] = diagnostics.losses(
            dataclasses.replace(factory, algorithm=changed),
            targets.take(np.arange(1)),
            targets.take(np.arange(1, 20)),
        )
    both = found["shared"]
    pairs = both["seen"] < both["unseen"]
    assert pairs.all(), "with the same other point, pair by pair"
    assert diagnostics.auc(**both) > 0.95
    assert diagnostics.auc(**found["random"]) < 0.8
    truth = np.repeat([1, 0], 19)
    scores = -np.concatenate([both["seen"], both["unseen"]])
    assert diagnostics.auc(**both) == roc_auc_score(truth, scores)
