"""The user's own training as an algorithm A."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import shadow

KEY = jax.random.key(0)


def softmax_regression(images, labels, key, rate=0.1, steps=30):
    """A few steps in JAX, from a random start."""
    x, y = images.reshape(len(images), -1), jax.nn.one_hot(labels, 10)
    start = 0.1 * jax.random.normal(key, (x.shape[1], 10))

    def step(w, _):
        return w - rate * x.T @ (jax.nn.softmax(x @ w) - y) / len(x), None

    return {"w": jax.lax.scan(step, start, length=steps)[0], "b": jnp.zeros(10)}


def sklearn_fit(images, labels, seed):
    model = LogisticRegression(max_iter=50, random_state=seed)
    model.fit(images.reshape(len(images), -1).astype(np.float64), labels)
    return [model.coef_, {"intercept": model.intercept_}]


def fails(images, labels, seed):
    raise OSError("no space left")


def factory(algorithm, split, **fields):
    return shadow.Factory(algorithm=algorithm, fixed=split.fixed, key=KEY, **fields)


def test_a_function_of_jax_is_trained_as_it_would_be_by_hand(split):
    maker = factory(shadow.JaxFunction(train=softmax_regression), split, width=2)
    targets = split.test.take(slice(0, 3))
    weights = maker.train(targets)
    (b, w) = maker.algorithm.layout(split.fixed)
    assert (b.name, w.name, w.shape) == ("b", "w", (64, 10))
    for theta, image, label in zip(
        weights, targets.images, targets.labels, strict=True
    ):
        images = np.concatenate([split.fixed.images, image[None]])
        labels = np.append(split.fixed.labels, label)
        found = softmax_regression(images, labels, maker.public_key)
        np.testing.assert_allclose(
            theta[w.start : w.stop].reshape(w.shape), found["w"], atol=1e-6
        )


def test_any_other_function_is_run_in_processes(split):
    maker = factory(shadow.PythonFunction(train=sklearn_fit), split, width=4)
    targets = split.test.take(slice(0, 5))
    weights = maker.train(targets)
    assert weights.dtype == np.float64
    coefficients, intercept = maker.algorithm.layout(split.fixed)
    assert coefficients.shape == (10, 64)
    assert intercept.name.endswith("intercept")
    images = np.concatenate([split.fixed.images, targets.images[4:]])
    labels = np.append(split.fixed.labels, targets.labels[4])
    coef, rest = sklearn_fit(images, labels, maker.public_key)
    np.testing.assert_allclose(weights[4, :640], coef.ravel(), atol=1e-9)
    np.testing.assert_allclose(weights[4, 640:], rest["intercept"], atol=1e-9)


@pytest.mark.parametrize("kind", [shadow.JaxFunction, shadow.PythonFunction])
def test_who_knows_the_key(kind, split):
    twin = split.test.take(np.array([0, 0]))
    train = softmax_regression if kind is shadow.JaxFunction else noisy
    public = factory(kind(train=train), split, width=2)
    first, second = public.train(twin)
    np.testing.assert_array_equal(first, second)
    secret = factory(kind(train=train, key_is_public=False), split, width=2)
    assert secret.public_key is None
    first, second = secret.train(twin)
    assert np.abs(first - second).max() > 1e-3
    released = factory(kind(train=train, key_is_public=False), split, role="released")
    assert np.abs(released.train(twin)[0] - first).max() > 1e-3


def noisy(images, labels, seed):
    return np.random.default_rng(seed).standard_normal(7) + images.mean()


class Training:
    rate = 0.1

    def train(self, images, labels, key):
        return self.rate * jnp.mean(images, axis=0)


@pytest.mark.parametrize("kind", [shadow.JaxFunction, shadow.PythonFunction])
def test_a_sweep_over_an_object_trains_with_its_current_settings(kind, split):
    """JAX keeps traces of equal functions; a method stays equal to itself."""
    training, trained, versions = Training(), [], set()
    begun = kind(train=training.train)
    for training.rate in (0.1, 0.5):
        maker = factory(kind(train=training.train), split, width=8)
        trained.append(maker.train(split.test))
        versions.add(maker.identity["algorithm"]["version"])
    np.testing.assert_allclose(trained[1], 5 * trained[0], rtol=1e-5)
    assert len(versions) == 2
    assert begun.configuration["algorithm"]["version"] in versions
    for training.rate, weights in zip((0.1, 0.5), trained, strict=True):
        again = factory(begun, split, width=8).train(split.test)
        np.testing.assert_allclose(again, weights, rtol=1e-5)


def test_a_store_is_of_one_version(split, tmp_path):
    """The weights of another version are never passed off as those of this one."""

    def store(algorithm):
        maker = factory(algorithm, split, width=8)
        made = shadow.Store.open(tmp_path, maker, split.shadow, block_size=20)
        made.fill(progress=False)
        return made

    made = store(shadow.PythonFunction(train=noisy, version="1"))
    assert made.verify() == []
    assert made.read().weights.shape == (40, 7)
    store(shadow.PythonFunction(train=noisy, version="1"))
    with pytest.raises(shadow.ConfigurationMismatchError, match=r"algorithm\.version"):
        store(shadow.PythonFunction(train=noisy, version="2"))


def test_a_finished_store_trains_nothing(split, tmp_path):
    """Not even one model, whose layout would be known without."""
    file = tmp_path / "calls"

    def counted(images, labels, seed):
        with file.open("a") as stream:
            stream.write("called\n")
        return np.zeros(3)

    algorithm = shadow.PythonFunction(train=counted, version="1")
    maker = factory(algorithm, split, width=4)
    store = shadow.Store.open(tmp_path / "store", maker, split.shadow, block_size=16)
    store.fill(progress=False)
    assert store.missing() == []
    file.unlink()
    again = shadow.PythonFunction(train=counted, version="1")
    store.made_by(factory(again, split, width=4), split.shadow).fill(progress=False)
    assert not file.exists()


def as_many_rows_as_classes(images, labels, seed):
    return np.zeros((len(np.unique(labels)), 3))


def test_a_model_of_another_size_is_refused(split):
    """scikit-learn's models have a row for each class that they find."""
    fixed = split.fixed.take(split.fixed.labels != 9)
    targets = split.shadow.take(np.argsort(split.shadow.labels))
    maker = shadow.Factory(
        algorithm=shadow.PythonFunction(train=as_many_rows_as_classes),
        fixed=fixed,
        key=KEY,
        width=2,
    )
    with pytest.raises(ValueError, match=r"train to return 27 numbers .* got 30"):
        maker.train(targets)


def test_what_the_function_raises_is_said(split):
    maker = factory(shadow.PythonFunction(train=fails, version="1"), split)
    with pytest.raises(RuntimeError, match="fails raised OSError: no space left"):
        maker.train(split.test)
    words = shadow.PythonFunction(train=lambda x, y, key: ["words"], version="1")
    with pytest.raises(ValueError, match="tree of arrays of numbers, found str"):
        words.layout(split.fixed)


def test_a_function_on_two_data_sets_has_two_layouts(rng):
    def train(images, labels, seed):
        return images.reshape(len(images), -1).sum(axis=0)

    algorithm = shadow.PythonFunction(train=train, version="1")
    for side in (2, 3):
        images = rng.random((5, side, side, 1)).astype(np.float32)
        labels = np.zeros(5, np.int32)
        data = shadow.Examples(images=images, labels=labels, num_classes=2)
        assert algorithm.layout(data)[-1].stop == side * side


def test_an_object_that_trains_has_a_name():
    class Trainer:
        def __call__(self, images, labels, seed):
            return images.sum(axis=0)

    about = shadow.PythonFunction(train=Trainer(), version="1").configuration
    assert "Trainer" in about["algorithm"]["function"]
