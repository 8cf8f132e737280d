import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from reconn import features
from shadow import ShadowModels
from shadow.views import EVERYTHING


def models(weights: np.ndarray) -> ShadowModels:
    count = len(weights)
    return ShadowModels(
        weights=weights.astype(np.float32),
        images=np.zeros((count, 2, 2, 1), np.float32),
        labels=np.zeros(count, np.int32),
    )


def fit(models, num_models, clip=10.0, **settings):
    return features.fit(
        models, EVERYTHING, num_models=num_models, clip=clip, **settings
    )


def in_blocks(weights, size):
    found = InBlocks(**vars(models(weights)))
    object.__setattr__(found, "size", size)
    return found


class InBlocks(ShadowModels):
    """The same models in blocks, as a store gives them."""

    size = 1

    def blocks(self):
        for start in range(0, len(self), self.size):
            yield models(self.weights[start : start + self.size])


def test_against_scikit_learns_scaler(rng):
    weights = rng.normal(5, rng.uniform(1e-3, 3, 30), (200, 30))
    standardiser = fit(models(weights), 200, clip=100.0)
    expected = StandardScaler().fit_transform(weights.astype(np.float32))
    np.testing.assert_allclose(
        standardiser(weights.astype(np.float32)), expected, atol=2e-3
    )


@pytest.mark.parametrize("size", [1, 7, 200])
def test_blocks_do_not_matter(rng, size):
    weights = rng.normal(100, 1e-2, (200, 30))
    expected = weights[:150].astype(np.float32).astype(np.float64)
    found = fit(in_blocks(weights, size), 150)
    np.testing.assert_allclose(found.mean, expected.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found.scale, expected.std(axis=0), rtol=1e-5)


def test_weights_that_do_not_vary_are_dropped(rng):
    weights = rng.normal(size=(50, 6)).astype(np.float32)
    weights[:, 2] = np.float32(0.1)
    weights[:, 4] = np.float32(0.3) + np.float32(3e-8) * rng.integers(0, 2, 50)
    standardiser = fit(models(weights), 50)
    np.testing.assert_array_equal(standardiser.scale > 0, [1, 1, 0, 1, 0, 1])
    assert standardiser.num_features == 4
    weights[:, 2] = 1e6
    assert np.abs(standardiser(weights)).max() <= 10


def test_raw_features_are_left_as_they_are(rng):
    weights = rng.normal(50, 9, (20, 3)).astype(np.float32)
    weights[:, 1] = 2
    found = fit(models(weights), 20, clip=1.0, standardise=False)
    np.testing.assert_array_equal(found(weights), weights[:, [0, 2]])


def test_only_the_first_models_are_read(rng):
    blocks = in_blocks(rng.normal(size=(20, 3)), 7)
    found = fit(blocks, 10)
    inputs, images, _ = features.read(blocks, EVERYTHING, found, num_models=12)
    np.testing.assert_array_equal(inputs, found(blocks.weights[:12]))
    assert len(images) == 12


def test_nothing_that_varies_is_an_error():
    with pytest.raises(ValueError, match="No feature varies between the 9"):
        features.fit(models(np.ones((9, 3))), EVERYTHING, num_models=9, clip=10.0)
    broken = np.ones((9, 3))
    broken[4, 1] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity among models 0 to 8"):
        fit(models(broken), 9)
    with pytest.raises(ValueError, match=r"at least 2 shadow models.*got 0"):
        features.fit(models(np.ones((0, 3))), EVERYTHING, num_models=1, clip=10.0)


def test_weights_of_another_victim_are_refused(rng):
    standardiser = features.fit(
        models(rng.normal(size=(9, 3))), EVERYTHING, num_models=9, clip=10.0
    )
    with pytest.raises(ValueError, match=r"3 features.*\(4,\)"):
        standardiser(np.zeros((1, 4), np.float32))


@pytest.mark.parametrize("size", [7, 300])
def test_a_model_that_diverged_is_refused_by_its_number(rng, size):
    """One of 1e30 among 300 had turned every answer into the mean image."""
    weights = rng.normal(size=(300, 30))
    weights[123, 4] = 1e30
    with pytest.raises(ValueError, match=r"the weights of model 123 are 2e\+29 times"):
        fit(in_blocks(weights, size), 300)


def test_models_that_are_no_numbers_are_refused_wherever_they_stand(rng):
    weights = rng.normal(size=(50, 30)).astype(np.float32)
    standardiser = fit(models(weights), 50)
    weights[17, 3] = np.nan
    with pytest.raises(ValueError, match="in 1 of 50 models, such as number 17"):
        standardiser(weights)
