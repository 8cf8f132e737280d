"""What every attack of the registry must keep, whatever it does inside.

A new attack is in here as soon as it has a row. It is played on the default world of
its protocol, with its default settings, unless `WORLDS` or `QUICK` say otherwise.
"""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from sklearn import linear_model

import informed
import shadow
from informed.attacks import registry
from informed.attacks.attack_row import Material
from informed.attacks.mean_image import mean_image
from informed.experiment.training_settings import TrainingConfig
from shadow.threat import Knowledge
from uninformed import homogeneous, kkt
from uninformed.knowledge import Architecture

KEY = jax.random.key(0)
QUICK = {
    "reconn": {"epochs": 3, "widths": (50,), "batch_size": 32},
    "inversion": {"stages": (16,)},
    "span": {"trainings": 20},
    "stationary": {"models": 2, "steps": 3, "labels_tried": 1},
}
WORLDS = {
    "glm": {
        "architecture": "affine",
        "epochs": 1500,
        "weight_decay": 0.05,
        "learning_rate": 0.5,
    },
    "stationary": {"widths": (4,)},  # its Hessians are computed
    "span": {"fixed": 40},  # fewer rows than pixels
}


def fitted(parts, targets, i):
    """A ridge regression on D_- and one target."""
    data = np.concatenate([parts.fixed.images, targets.images[i : i + 1]])
    labels = np.append(parts.fixed.labels, targets.labels[i]).astype(float)
    return linear_model.Ridge(alpha=0.1).fit(data.reshape(len(data), -1), labels)


named = pytest.mark.parametrize(
    "row", registry.rows().values(), ids=lambda row: row.name
)


@dataclasses.dataclass
class World:
    """A developer, targets, and an attack that is ready."""

    factory: shadow.Factory
    parts: shadow.Split
    attack: object
    told: Knowledge
    weights: np.ndarray | tuple

    @functools.cached_property
    def found(self):
        return self.play(self.weights)

    def play(self, weights, told=None, key=KEY):
        return self.attack(self.seen(weights), told or self.told, key=key)

    def seen(self, weights):
        return weights if isinstance(weights, tuple) else shadow.publish(weights)

    def of_one_other(self):
        """Releases that are all the model of one other point."""
        other = self.parts.shadow.take(slice(7, 8))
        if isinstance(self.weights, tuple):
            return (fitted(self.parts, other, 0),) * len(self.weights)
        released = dataclasses.replace(self.factory, role="released")
        return np.repeat(released.train(other), len(self.weights), axis=0)


@pytest.fixture(scope="module")
def world(digits, tmp_path_factory):
    parts = shadow.split(digits, num_fixed=80, num_shadow=240, num_test=4, seed=0)

    @functools.cache
    def developer(fields):
        fields = {"epochs": 30} | dict(fields)
        fixed = parts.fixed.take(np.arange(fields.pop("fixed", 80)))
        config = shadow.VictimConfig(
            architecture=fields.pop("architecture", "mlp"),
            widths=fields.pop("widths", (10,)),
        )
        victim = shadow.build_victim(config, image_shape=(8, 8, 1), num_classes=10)
        descent = TrainingConfig(**fields).algorithm(victim)
        factory = shadow.Factory(
            algorithm=descent, fixed=fixed, key=jax.random.key(1), width=8
        )
        released = dataclasses.replace(factory, role="released").train(parts.test)
        return factory, released

    @functools.cache
    def made(name):
        row = registry.find(name)
        factory, models = developer(tuple(WORLDS.get(name, {}).items()))
        if row.sees == "estimator":
            models = tuple(fitted(parts, parts.test, i) for i in range(4))
        needs_shadows = "public" in row.knows
        weights = factory.train(parts.shadow) if needs_shadows else None
        material = Material(
            shadows=shadow.ShadowModels.of(weights, parts.shadow)
            if needs_shadows
            else None,
            workdir=tmp_path_factory.mktemp(name),
            key=KEY,
        )
        attack = row.attack(row.settings(**QUICK.get(name, {})), material)
        told = factory.knowledge(public=parts.shadow)
        return World(factory, parts, attack, told, models)

    return made


def fields_of(found):
    values = {f.name: getattr(found, f.name) for f in dataclasses.fields(found)}
    return {name: each for name, each in values.items() if each is not None}


def assert_same(first, second):
    first, second = fields_of(first), fields_of(second)
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


@named
def test_the_same_key_gives_the_same_bytes_and_what_is_promised(row, world):
    played = world(row.name)
    first, again = played.found, played.play(played.weights)
    assert_same(first, again)
    assert set(fields_of(first)) == set(row.gives)
    assert first.images.shape == played.parts.test.images.shape
    assert np.isfinite(first.images).all()


@named
def test_the_truth_replaced_the_output_stays(row, world):
    """Everything that holds targets is overwritten in place while the attack runs."""
    played = world(row.name)
    expected = played.found
    truth = played.parts.test
    for array in (truth.images, truth.labels):
        kept = array.copy()
        array[...] = np.roll(array, 1, axis=0)[::-1]
        try:
            assert_same(played.play(played.weights), expected)
        finally:
            array[...] = kept


@named
def test_what_is_not_finite_is_refused(row, world):
    played = world(row.name)
    if row.sees == "estimator":
        model = fitted(played.parts, played.parts.test, 0)
        model.coef_[3] = np.nan
        assert np.isnan(played.play((model,)).images).all()
        assert "NaN or infinity" in played.attack.note
        return
    bad, count = played.weights.copy(), len(played.weights)
    bad[1, 3] = np.nan
    with pytest.raises(ValueError, match=f"NaN or infinity in 1 of {count} releases"):
        played.play(bad)


@named
def test_a_release_that_tells_nothing_is_worth_nothing(row, world):
    """All releases are the model of one other point: no better than the best guess."""
    played = world(row.name)
    if row.sees == "nothing":
        pytest.skip("it is the best guess")
    found = played.play(played.of_one_other())
    params = played.factory.algorithm.layout(played.parts.fixed)[-1].stop
    guess = mean_image(shadow.publish(np.zeros((4, params))), played.told, key=KEY)
    truth = played.parts.test.images
    errors, best = (informed.mse(truth, each.images) for each in (found, guess))
    assert errors.mean() > 0.9 * best.mean()


@named
def test_what_it_needs_and_is_not_told_is_named(row, world, tmp_path):
    played = world(row.name)
    if "public" in row.knows:
        with pytest.raises(ValueError, match="needs shadow models"):
            row.attack(
                row.settings(), Material(shadows=None, workdir=tmp_path, key=KEY)
            )
        return
    for field in row.knows:
        told = dataclasses.replace(played.told, **{field: None})
        with pytest.raises(ValueError, match=f"told {field}; this adversary isn't"):
            played.play(played.weights, told)


def test_the_closed_form_is_right_where_training_ends_at_the_optimum(world):
    played = world("glm")
    found = played.found
    truth = played.parts.test
    np.testing.assert_array_equal(found.labels, truth.labels)
    assert informed.mse(truth.images, found.images).max() < 1e-3


@named
def test_attacks_that_see_all_weights_refuse_less(row, world):
    played = world(row.name)
    if row.sees != "weights":
        pytest.skip("it takes other releases")
    view = shadow.Layers(columns=np.arange(3), params=played.weights.shape[1])
    release = shadow.publish(played.weights, view)
    with pytest.raises(ValueError, match="release of all weights, got one of some"):
        played.attack(release, played.told, key=KEY)


def test_candidates_from_weights_alone_are_the_same_for_the_same_key():
    config = homogeneous.HomogeneousConfig(widths=(6,), first_scale=None)
    victim = homogeneous.victim(config, (1, 5, 1))
    theta = victim.flatten(homogeneous.init(config, 5, jax.random.key(3)))
    release = shadow.publish(np.stack([theta, theta]))
    attack = kkt.Attack(config=kkt.KktConfig(candidates=6, steps=60, span=False))
    first = attack(release, Architecture(victim=victim), key=KEY)
    assert_same(first, attack(release, Architecture(victim=victim), key=KEY))
    assert first.points.shape == (2, 6, 5)
    assert first.points.shape[:2] == first.scores.shape
    assert np.isfinite(first.points).all()
    with pytest.raises(ValueError, match="told victim; this adversary isn't"):
        attack(release, Architecture(), key=KEY)


def test_every_attack_has_a_threat_model():
    found = {row.name: row.threat_model for row in registry.rows().values()}
    expected = {"reconn", "kernel", "inversion", "glm", "span", "stationary"}
    assert expected <= set(found)
    for each in found.values():
        assert each["sees"]
        assert each["gives"]
        assert each["about"]
    with pytest.raises(ValueError, match=r"Did you mean 'kernel'\?"):
        registry.find("kernl")
    row = registry.find("kernel")
    with pytest.raises(ValueError, match="called 'kernel' already"):
        registry.register(dataclasses.replace(row, config=dict))
