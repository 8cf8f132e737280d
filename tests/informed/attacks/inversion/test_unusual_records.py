"""Records, and trainings, that the known records are no guide to."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import informed
import shadow
from informed.attacks.inversion import Inversion, InversionConfig
from shadow import publish
from tests.informed.developers import developer, parts_of

KEY = jax.random.key(0)


def test_small_learning_rates_hide_no_pixel(digits):
    parts = parts_of(digits, dark=2)
    factory = developer(parts, epochs=2, learning_rate=1e-4, momentum=0.0)
    release = publish(factory.train(parts.test))
    assert parts.test.images[:, :2].any(), "the targets light what D_- never does"
    told = dataclasses.replace(
        factory.knowledge(public=parts.shadow), labels=parts.test.labels
    )
    config = InversionConfig(starts=1, neighbours=20)
    found = Inversion(config=config)(release, told, key=KEY)
    assert informed.mse(parts.test.images, found.images).max() < 1e-6


def examples(rows, labels, num_classes):
    images = np.asarray(rows, np.float32).reshape(len(rows), 1, -1, 1)
    return shadow.Examples(
        images=images, labels=np.asarray(labels, np.int32), num_classes=num_classes
    )


def counted(images, labels, key):
    features = images.reshape(len(images), -1).astype(np.float64)
    found = [features[labels == label].sum(axis=0) for label in range(3)]
    return [*found, np.bincount(labels, minlength=3).astype(np.float64)]


def test_a_copy_of_the_only_record_of_its_class_is_read(rng):
    rows = rng.integers(0, 256, (12, 6)) / np.float32(255)
    labels = np.array([0] * 6 + [1] * 5 + [2])
    fixed = examples(rows, labels, 3)
    factory = shadow.Factory(
        algorithm=shadow.PythonFunction(train=counted, version="1"),
        fixed=fixed, key=KEY, role="released",
    )  # fmt: skip
    release = publish(factory.train(fixed.take(np.array([11]))))
    told = factory.knowledge()
    found = Inversion()(release, told, key=KEY)
    assert found.labels.tolist() == [2]
    np.testing.assert_array_equal(found.images[0], fixed.images[11])


def test_a_label_whose_training_diverges_is_not_the_likeliest(rng):
    def train(images, labels, key):
        features = images.reshape(len(images), -1)
        found = jax.nn.one_hot(labels, 3).T @ features
        # With a last record of class 0 nothing comes of it.
        return found + jnp.where(labels[-1] == 0, jnp.nan, 0.0)

    rows = rng.integers(0, 256, (31, 4)) / np.float32(255)
    labels = np.append(np.arange(30) % 3, 1)
    factory = shadow.Factory(
        algorithm=shadow.JaxFunction(train=train, version="1", precision="highest"),
        fixed=examples(rows[:30], labels[:30], 3), key=KEY, role="released",
    )  # fmt: skip
    release = publish(factory.train(examples(rows[30:], labels[30:], 3)))
    config = InversionConfig(engine="derivatives")
    told = factory.knowledge()
    found = Inversion(config=config)(release, told, key=KEY)
    assert found.labels.tolist() == [1]
    np.testing.assert_allclose(found.images.ravel(), rows[30], atol=1e-5)


def test_a_category_that_nobody_else_has_is_found(rng):
    count, width = 80, 24
    kinds = [np.eye(6)[rng.integers(0, 5, count + 151)] for _ in range(2)]
    rows = np.concatenate([rng.random((count + 151, 12)), *kinds], axis=1)
    rows[-1, 12:18] = np.eye(6)[5]
    labels = rng.integers(0, 2, count + 151)

    def train(images, labels, key):
        x = images.reshape(len(images), -1)
        first, second = jax.random.split(key)
        params = (
            jax.random.normal(first, (width, 16)) / np.sqrt(width),
            jax.random.normal(second, (16, 2)) / 4,
        )

        def loss(params):
            logits = jnp.tanh(x @ params[0]) @ params[1]
            truth = labels[:, None]
            return -jnp.take_along_axis(jax.nn.log_softmax(logits), truth, 1).mean()

        def step(state, _):
            params, speed = state
            slope = jax.grad(loss)(params)
            speed = jax.tree.map(lambda v, g: 0.9 * v + g, speed, slope)
            return (jax.tree.map(lambda p, v: p - 0.2 * v, params, speed), speed), None

        zeros = jax.tree.map(jnp.zeros_like, params)
        return jax.lax.scan(step, (params, zeros), length=100)[0][0]

    factory = shadow.Factory(
        algorithm=shadow.JaxFunction(train=train, version="1", precision="highest"),
        fixed=examples(rows[:count], labels[:count], 2), key=KEY, role="released",
    )  # fmt: skip
    target = examples(rows[-1:], labels[-1:], 2)
    public = examples(rows[count:-1], labels[count:-1], 2)
    told = factory.knowledge(public=public)
    attack_ = Inversion(config=InversionConfig(engine="derivatives"))
    found = attack_(publish(factory.train(target)), told, key=KEY)
    assert found.certified.all()
    assert informed.mse(target.images, found.images).max() < 1e-9
