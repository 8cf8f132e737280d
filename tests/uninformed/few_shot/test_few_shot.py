"""Few-shot heads: training against autodiff, the attack against planted records."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uninformed.few_shot import attack, heads, prior

_CLASSES, _DIMENSIONS, _KNOWN = 5, 150, 2000
_RECIPE = heads.Recipe(
    classes=_CLASSES, steps=40, learning_rate=0.05, weight_decay=1e-3, init_std=1e-3
)
_CONFIG = attack.FewShotConfig(starts=3, steps=15)


def _records(rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
    """What a ReLU leaves of normal numbers around the middle of each class."""
    middles = np.random.default_rng(7).normal(0, 1, (_CLASSES, _DIMENSIONS))
    mixed = np.random.default_rng(8).normal(0, 0.1, (_DIMENSIONS, _DIMENSIONS))
    drawn = rng.normal(size=(len(labels), _DIMENSIONS))
    return np.maximum(middles[labels] + drawn @ mixed, 0)


def _told(shots: int) -> tuple[np.ndarray, np.ndarray, prior.Prior]:
    labels = np.arange(_KNOWN) % _CLASSES
    known = _records(np.random.default_rng(1), labels)
    told = prior.fit(known, labels, classes=_CLASSES, shots=shots)
    return known, labels, told


def _descended(records: np.ndarray, labels: np.ndarray, start: np.ndarray) -> dict:
    """The same training by JAX's own derivatives."""

    def loss(params: dict) -> jax.Array:
        logits = records @ params["w"].T + params["b"][None]
        chosen = jax.nn.log_softmax(logits)[jnp.arange(len(labels)), labels]
        decay = sum((each**2).sum() for each in params.values())
        return -chosen.mean() + 0.5 * _RECIPE.weight_decay * decay

    params = {"w": jnp.asarray(start), "b": jnp.zeros(_CLASSES)}
    for _ in range(_RECIPE.steps):
        slopes = jax.grad(loss)(params)
        params = jax.tree.map(
            lambda value, slope: value - _RECIPE.learning_rate * slope, params, slopes
        )
    return params


def test_a_head_is_what_gradient_descent_makes() -> None:
    labels = np.repeat(np.arange(_CLASSES), 2)
    records = _records(np.random.default_rng(2), labels)
    made = heads.train(records, labels, _RECIPE, np.random.default_rng(3))
    shape = (_CLASSES, _DIMENSIONS)
    start = np.random.default_rng(3).normal(0, _RECIPE.init_std, shape)
    with jax.enable_x64(True):
        wanted = _descended(records, labels, start)
    np.testing.assert_allclose(made.weights, wanted["w"], atol=1e-9)
    np.testing.assert_allclose(made.biases, wanted["b"], atol=1e-9)


def test_slopes_are_differences() -> None:
    labels = np.arange(_CLASSES)
    records = _records(np.random.default_rng(4), labels)
    rng = np.random.default_rng(5)
    head = heads.train(records, labels, _RECIPE, rng)
    problem = attack._Problem(head, _RECIPE, _told(1)[2])
    mixing = problem.mixing_of(records)
    shown = attack._Shown(problem, mixing, 0.1)
    step = 1e-7 * np.abs(mixing).max()
    _, slopes = problem._missed(mixing, shown, slopes=True)
    for entry in (0, 7, mixing.size - 1):
        moved = np.zeros(mixing.size)
        moved[entry] = step
        ends = [
            problem._missed(mixing + sign * moved.reshape(mixing.shape), shown)[0]
            * np.linalg.norm(mixing + sign * moved.reshape(mixing.shape))
            for sign in (1, -1)
        ]
        wanted = (ends[0] - ends[1]) / (2 * step * np.linalg.norm(mixing))
        np.testing.assert_allclose(slopes[entry], wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shots", [1, 4])
def test_planted_records_are_found(shots: int) -> None:
    known, of_known, told = _told(shots)
    recipe = dataclasses.replace(_RECIPE, shots=shots)
    labels, rng = np.repeat(np.arange(_CLASSES), shots), np.random.default_rng(6)
    errors, without = [], []
    for _ in range(6):
        records = _records(rng, labels)
        head = heads.train(records, labels, recipe, rng)
        found = attack.reconstruct(head, recipe, told, known, of_known, _CONFIG, rng)
        means = records.reshape(_CLASSES, shots, -1).mean(axis=1)
        lengths = np.linalg.norm(means, axis=1)
        errors.append(np.linalg.norm(found.records - means, axis=1) / lengths)
        without.append(np.linalg.norm(told.expected - means, axis=1) / lengths)
    assert np.median(errors) < np.median(without) / (4 if shots == 1 else 1.5)


def test_an_encoder_without_zeros_leaves_the_common_shift_open() -> None:
    rng, labels = np.random.default_rng(10), np.arange(_CLASSES)
    middles = rng.normal(0, 1, (_CLASSES, _DIMENSIONS))
    of_known = np.arange(_KNOWN) % _CLASSES
    known = middles[of_known] + 0.5 * rng.normal(size=(_KNOWN, _DIMENSIONS))
    told = prior.fit(known, of_known, classes=_CLASSES, shots=1)
    assert not told.sure.any()
    records = middles + 0.5 * rng.normal(size=middles.shape)
    head = heads.train(records, labels, _RECIPE, rng)
    found = attack.reconstruct(head, _RECIPE, told, known, of_known, _CONFIG, rng)
    apart = found.records - records
    # Records are told but for one vector that all share, for which the prior's mean
    # stands: of five independent ones that leaves a fifth of the squared error.
    shared = apart.mean(axis=0, keepdims=True)
    without = np.linalg.norm(middles - records)
    assert np.linalg.norm(apart - shared) < 0.25 * without
    assert 0.8 < np.sqrt(5) * np.linalg.norm(shared) * np.sqrt(5) / without < 1.25


def test_a_prior_needs_two_records_of_each_class() -> None:
    with pytest.raises(ValueError, match="at least two known records of each of 3"):
        prior.fit(np.ones((4, 2)), np.array([0, 0, 1, 1]), classes=3, shots=1)


def test_labels_beyond_the_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="labels up to 2"):
        prior.fit(np.ones((6, 2)), np.repeat(np.arange(3), 2), classes=2, shots=1)


@pytest.mark.parametrize("field", ["shots", "steps", "learning_rate", "init_std"])
def test_a_recipe_says_which_field_is_wrong(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        heads.Recipe(**{field: type(getattr(heads.Recipe(), field))(0)})
