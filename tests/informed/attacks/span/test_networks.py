"""The attack off the span of D_-, on first layers that begin anywhere."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import linear_model

import shadow
from informed.attacks import registry, span
from informed.attacks.attack_row import Facts, Material, NotApplicableError
from informed.attacks.span import columns, first_layers
from informed.attacks.span.guess_search import search
from informed.experiment.training_settings import TrainingConfig
from shadow.victims import Slice

KEY = jax.random.key(0)
ROW = registry.find("span")


def letters(seed, rows=90, side=20, share=0.25):
    """Pictures of two levels, with more pixels than there are of them."""
    rng = np.random.default_rng(seed)
    images = (rng.random((rows, side, side, 1)) < share).astype(np.float32)
    labels = images[:, : side // 2].mean(axis=(1, 2, 3)) > share
    return shadow.Examples(images=images, labels=labels.astype(np.int32), num_classes=2)


def made(optimiser, seed=0, fixed=50, **training):
    """A factory of small networks, its parts, and released models of four targets."""
    parts = shadow.split(
        letters(seed), num_fixed=fixed, num_shadow=20, num_test=4, seed=0
    )
    victim = shadow.VictimConfig(architecture="mlp", widths=(8,))
    training = {"epochs": 20, "optimiser": optimiser} | training
    return trained(parts, victim, training, jax.random.key(1))


def trained(parts, victim, training, key):
    """A factory, its parts, and released models of all targets."""
    descent = TrainingConfig(**training).algorithm(
        shadow.build_victim(
            victim,
            image_shape=parts.fixed.image_shape,
            num_classes=parts.fixed.num_classes,
        )
    )
    factory = shadow.Factory(
        algorithm=descent, fixed=parts.fixed, key=key, width=len(parts.test)
    )
    weights = dataclasses.replace(factory, role="released").train(parts.test)
    return factory, parts, shadow.publish(weights)


def play(release, knowledge, tmp_path):
    material = Material(workdir=tmp_path, key=KEY)
    attack = ROW.attack(ROW.settings(), material)
    return attack(release, knowledge, key=KEY), attack.note


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "training", [{}, {"momentum": 0.9}, {"weight_decay": 1e-3}, {"batch_size": 16}]
)
def test_the_first_layer_of_a_network(training, seed, tmp_path):
    factory, parts, release = made("sgd", seed, **training)
    told = factory.knowledge(public=parts.shadow)
    found, note = play(release, told, tmp_path)
    assert note == ""
    assert np.array_equal(found.images, parts.test.images)
    assert found.certified.all()
    assert found.trainings.tolist() == [3, 0, 0, 0]


@pytest.mark.parametrize("masked", [True, False])
def test_a_square_layer_that_may_not_see_the_dark_border(masked):
    """Theta holds the layer as (units, features). Masked, the target's is lit."""
    side = 16
    records, seen = letters(0, side=side), np.ones((side, side, 1), np.float32)
    records.images[:, :, :2] = 0
    records.images[40:, 3:7, 0] = masked
    seen[:, :2] = not masked

    def apply(params, images):
        rows = (images * seen[None]).reshape(len(images), -1)
        return jnp.tanh(rows @ params["first"].T) @ params["last"]

    victim = shadow.from_functions(
        lambda key: {
            "first": jax.random.normal(key, (side**2, side**2)) / side,
            "last": jax.random.normal(key, (side**2, 2)) / side,
        },
        apply,
        image_shape=(side, side, 1),
        num_classes=2,
    )
    algorithm = shadow.GradientDescent(victim=victim, epochs=20)
    factory = shadow.Factory(algorithm, records.take(slice(0, 40)), key=KEY)
    target = records.take(slice(40, 42))
    attack = span.SpanAttack(config=ROW.settings(trainings=0))
    answer = attack(factory.release(target), factory.knowledge(), key=KEY)
    assert np.array_equal(answer.images, target.images) != masked
    assert answer.certified.tolist() == [not masked] * 2


def test_adam_leaves_the_span_and_is_refused(tmp_path):
    factory, parts, release = made("adam", learning_rate=1e-2)
    told = factory.knowledge(public=parts.shadow)
    with pytest.raises(NotApplicableError, match="leaves the span"):
        play(release, told, tmp_path)


def test_a_known_row_that_is_another_gives_no_certificate(tmp_path):
    factory, parts, release = made("sgd")
    images = parts.fixed.images.copy()
    images[3] = letters(9).images[0]
    wrong = dataclasses.replace(parts.fixed, images=images)
    told = factory.knowledge(public=parts.shadow)
    told = dataclasses.replace(told, fixed=wrong)
    found, _ = play(release, told, tmp_path)
    assert not found.certified.any()


def test_what_a_layer_needs_is_named(tmp_path):
    factory, _, release = made("sgd")
    told = dataclasses.replace(factory.knowledge(), algorithm=None)
    with pytest.raises(NotApplicableError, match="A isn't told"):
        play(release, told, tmp_path)


def pictures(seed, rows=90, side=14):
    """Smooth pictures of bytes."""
    rng = np.random.default_rng(seed)
    waves = rng.standard_normal((rows, 4, 4)) / (1 + np.indices((4, 4)).sum(axis=0))
    at = np.cos(np.outer(np.arange(side) + 0.5, np.arange(4)) * np.pi / side)
    smooth = at @ waves @ at.T + 0.1 * rng.standard_normal((rows, side, side))
    images = np.round(255 / (1 + np.exp(-2 * smooth))) / 255
    return shadow.Examples(
        images=images[..., None].astype(np.float32),
        labels=np.digitize(images.mean(axis=(1, 2)), [0.4, 0.6]).astype(np.int32),
        num_classes=3,
    )


def of_pictures(examples, seed=0, **training):
    """A factory of networks of pictures, and released models of two targets."""
    parts = shadow.split(examples, num_fixed=60, num_shadow=20, num_test=2, seed=seed)
    victim = shadow.VictimConfig(architecture="mlp", widths=(8,), activation="tanh")
    training = {"epochs": 40, "optimiser": "sgd", "learning_rate": 0.05} | training
    return trained(parts, victim, training, jax.random.key(2))


def searched(factory, release, tmp_path, trainings=4000):
    """Neither labels nor public records are told."""
    attack = ROW.attack(
        ROW.settings(trainings=trainings), Material(workdir=tmp_path, key=KEY)
    )
    found = attack(release, factory.knowledge(), key=KEY)
    assert attack.note == ""
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_pictures_are_searched_in_what_the_direction_leaves(seed, tmp_path):
    factory, parts, release = of_pictures(pictures(seed), seed)
    found = searched(factory, release, tmp_path)
    assert np.array_equal(found.images, parts.test.images)
    assert found.certified.all()


def test_without_levels_the_row_is_found_and_not_certified(tmp_path):
    between = pictures(3)
    noise = np.random.default_rng(0).random(between.images.shape) / 255
    between = dataclasses.replace(
        between, images=(0.99 * between.images + noise).astype(np.float32)
    )
    factory, parts, release = of_pictures(between)
    found = searched(factory, release, tmp_path, trainings=1000)
    assert np.abs(found.images - parts.test.images).max() < 1e-3
    assert not found.certified.any()


def test_a_target_between_levels_is_not_put_on_them(tmp_path):
    examples = pictures(4)
    factory, parts, _ = of_pictures(examples)
    rng = np.random.default_rng(1)
    noise = rng.uniform(0.2, 0.5, parts.test.images.shape) / 255
    off = dataclasses.replace(
        parts.test, images=(0.99 * parts.test.images + noise).astype(np.float32)
    )
    release = shadow.publish(dataclasses.replace(factory, role="released").train(off))
    found = searched(factory, release, tmp_path, trainings=1000)
    assert not found.certified.any()
    assert np.abs(found.images - off.images).max() < 1e-3


@pytest.mark.parametrize(("noise", "sure"), [(1e-3, True), (0.15, False)])
def test_levels_are_certain_only_where_another_level_would_show(noise, sure):
    """A that answers linearly, and noise on its weights, in levels of one pixel."""
    units, size, count = 6, 300, 40
    rng = np.random.default_rng(0)
    known = rng.integers(0, 256, (count, size)) / 255
    start = rng.standard_normal((units, size))
    share = rng.standard_normal(units)
    deviation = noise / 255 * np.linalg.norm(share)
    part = Slice("w", 0, units * size, (units, size))
    wrong = 0
    for _ in range(8):
        target = rng.integers(0, 256, size) / 255
        released = start + np.outer(share, target)
        released += deviation * rng.standard_normal(released.shape)
        layer = first_layers.Layer(
            part=part,
            start=start,
            deviation=np.full(size, first_layers.SPREAD * deviation),
            blind=np.zeros(size, bool),
        )
        direction = span.read(released, known, start=start, deviation=layer.deviation)
        found, _ = search(
            direction,
            layer,
            released.ravel(),
            (known, np.zeros(count, int)),
            [0],
            lambda rows, _: (
                start.ravel()
                + np.einsum("i,gj->gij", share, rows).reshape(len(rows), -1)
            ),
            columns.of(known),
            300,
        )
        near = np.round(found.row * 255) / 255
        wrong += bool(np.abs(near - target).max() > 1e-9)
        assert found.certified == sure
        assert not sure or np.abs(found.row - target).max() < 1e-9
    # Without noise in the way all are right; with it, some would be wrong.
    assert (wrong == 0) == sure


@pytest.mark.parametrize("rate", [1e3, 1e20])
def test_wild_training_certifies_nothing_that_is_wrong(rate, tmp_path):
    factory, parts, release = of_pictures(pictures(6), learning_rate=rate)
    found, _ = play(release, factory.knowledge(), tmp_path)
    assert np.isfinite(found.images).all()
    right = (found.images == parts.test.images).all(axis=(1, 2, 3))
    assert (right | ~found.certified).all()


def test_another_key_of_the_training_certifies_nothing(tmp_path):
    factory, _, release = of_pictures(pictures(5), batch_size=20)
    told = factory.knowledge()
    told = dataclasses.replace(told, training_key=jax.random.key(77))
    material = Material(workdir=tmp_path, key=KEY)
    attack = ROW.attack(ROW.settings(trainings=150), material)
    assert not attack(release, told, key=KEY).certified.any()


def test_when_it_applies():
    fitted = linear_model.Ridge().fit(np.eye(3), np.ones(3))
    assert "closed form" in ROW.why_not(Facts(returned=fitted))
    assert "for networks" in ROW.why_not(Facts(returned=linear_model.Ridge()))
    assert "secret" in ROW.why_not(Facts(secret=True))
    assert "different weights" in ROW.why_not(Facts(deterministic=False))
    assert "62 rows of 64 features" in ROW.why_not(Facts(known=(62, 64)))
    assert ROW.why_not(Facts(known=(61, 64))) == ""
