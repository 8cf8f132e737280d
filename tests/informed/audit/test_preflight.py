"""What a few runs tell; planted faults are found, with their remedies."""

import dataclasses
import importlib
import sys
import time

import jax.numpy as jnp
import numpy as np
import pytest
from joblib.externals import loky

import informed
from informed.attacks import registry
from informed.attacks.attack_row import Material
from informed.audit import auditing, contract, engine, preflight, subject, trials
from informed.audit.auditing import AuditConfig
from informed.audit.findings import AuditStoppedError
from informed.cli import audit_command as audit
from informed.play import play
from shadow import released
from tests.informed.audit.audited_trainings import check, linear, slow_numpy


def numpy_linear(images, labels, seed: int):
    x = images.reshape(len(images), -1)
    start = np.random.default_rng(seed).standard_normal(x.shape[1])
    return start + x.T @ labels / len(x)


def test_a_clean_function_of_jax_has_no_complaint():
    found = check(linear)
    assert found.subject.engine == "jax"
    assert found.subject.deterministic
    assert found.key_matters
    assert not found.order_matters
    assert found.params == 640
    assert not [f for f in found.findings if f.level != "note"]
    text = audit._described(found)
    assert "  inversion     applies" in text
    assert "deterministic   yes" in text


def test_a_function_of_numpy_is_run_in_processes():
    found = check(numpy_linear)
    assert found.subject.engine == "processes"
    assert found.subject.deterministic
    assert any("can't trace" in finding.what for finding in found.findings)


def looped(images, labels, seed: int):
    """Train by steps of a Python loop, whose compilation takes longer than they do."""
    x = images.reshape(len(images), -1)
    weights = jnp.zeros((x.shape[1], 10))
    for _ in range(15):
        weights -= 0.1 * x.T @ (jnp.tanh(x @ weights) - jnp.eye(10)[labels]) / len(x)
    return weights


@pytest.mark.parametrize(("limit", "name"), [(1.0, "processes"), (1e4, "jax")])
def test_a_long_python_loop_is_compiled_only_where_time_allows(limit, name):
    loaded = auditing.load("digits")[0].take(np.arange(200))
    terms = contract.load_training(looped, version="1")
    prepared = subject.prepare(terms, loaded, targets=2, fixed=20)
    chosen, why = engine.engine_of(prepared, limit)
    assert chosen == name
    assert ("lax.scan" in why) == (name == "processes")


def noisy_numpy(images, labels, seed: int):
    x = images.reshape(len(images), -1)
    np.random.shuffle(x)  # noqa: NPY002
    return np.arange(len(x)) @ x


def test_unseeded_randomness_is_found():
    found = check(noisy_numpy)
    assert not found.subject.deterministic
    (finding,) = [f for f in found.findings if f.level == "weakens"]
    assert finding.what == "the same arguments give different weights"
    assert "draw everything from the key" in finding.remedy


def seeded_by_a_key(images, labels, key):
    return np.random.default_rng(key).normal(size=3) + images.mean()


def test_a_key_that_numpy_gets_is_named_with_its_remedy():
    with pytest.raises(RuntimeError, match=r"train\(images, labels, seed: int\)"):
        check(seeded_by_a_key)


def deaf(images, labels, key):
    return jnp.ones(3) * images.shape[1]


def exploding(images, labels, key):
    return images.mean() * jnp.array([1.0, jnp.nan])


def growing(images, labels, seed: int):
    return np.unique(np.round(images[-1] * 255))


@pytest.mark.parametrize(
    ("train", "level", "what"),
    [
        (deaf, "weakens", "don't change when the target does"),
        (exploding, "stops", "1 weights are NaN or infinite"),
        (growing, "stops", "another target give weights of another shape"),
    ],
)
def test_what_voids_an_audit_is_said(train, level, what):
    found = check(train)
    assert any(f.level == level and what in f.what and f.remedy for f in found.findings)
    assert bool(found.stops) == (level == "stops")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("weights"), "broken raised KeyError: 'weights'"),
        (ValueError("first\nsecond"), "broken raised ValueError: first"),
    ],
)
def test_a_function_that_raises_is_named_in_a_line(error, said):
    def broken(images, labels, key):
        raise error

    with pytest.raises(RuntimeError) as raised:
        check(broken)
    assert str(raised.value).endswith(said)


def test_too_little_data_is_refused(digits):
    few = digits.take(np.arange(30))
    with pytest.raises(ValueError, match="Set --fixed or --targets lower"):
        check(linear, few)


def test_arrays_of_two_axes_are_a_table(rng):
    rows = rng.standard_normal((60, 4)), np.arange(60) % 2
    examples, table = auditing.load(rows)
    assert examples.image_shape == (1, 4, 1)
    assert table is not None
    with pytest.raises(ValueError, match="label is of tables"):
        auditing.load("digits", label="x")


class Endless:
    def each(self, release, knowledge, *, key):
        time.sleep(20)
        yield


def test_trainings_of_an_inversion_without_time_are_not_counted(tmp_path):
    models = trials.train(check(linear).subject, targets=2)
    row = registry.find("inversion")
    row = dataclasses.replace(row, make=lambda config, material: Endless())
    material = Material(workdir=tmp_path, key=models.subject.key)
    told = models.knowledge
    found = play(row, material, models.weights, told, key=models.subject.key, limit=0.1)
    assert found.finished.tolist() == [False]
    assert np.isnan(found.images).all()
    assert found.trainings is None
    assert "out of time at target 1 of 2" in found.why_not


def test_scores_that_are_no_numbers_are_not_asked_for(digits):
    def train(images, labels, seed: int):
        return means_of(images, labels)

    def means_of(images, labels):
        flat = images.reshape(len(images), -1)
        return np.stack([flat[labels == c].sum(axis=0) for c in range(10)])

    def predict(weights, images):
        scores = np.maximum(images.reshape(len(images), -1) @ weights.T, 0)
        images -= 1  # its own arrays, whatever it does to them
        with np.errstate(divide="ignore"):
            return np.log(scores * (scores > 50))

    data = digits.take(np.arange(300))
    settings = {"targets": 2, "fixed": 30, "minutes": 0.5}
    held = data.images.copy()
    found = auditing.check(train, data, predict=predict, version="1", **settings)
    assert any("aren't finite numbers" in str(each) for each in found.findings)
    np.testing.assert_array_equal(data.images, held)
    assert found.subject.held_out.images.min() >= 0


def test_a_module_that_was_changed_after_its_import_stops(
    digits, tmp_path, monkeypatch
):
    (tmp_path / "changed_later.py").write_text(
        "import numpy as np\n\nSCALE = 1.0\n\n\ndef train(images, labels, seed: int):\n"
        "    rows = np.asarray(images).reshape(len(images), -1)\n"
        "    return SCALE * rows.sum(axis=0)[:8]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    # Processes that were begun before don't look there.
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    loky.get_reusable_executor().shutdown(wait=True)
    module = importlib.import_module("changed_later")
    settings = auditing.AuditConfig(targets=2, fixed=30, minutes=0.5)
    data = digits.take(np.arange(300))

    def stopped():
        found = auditing.check(module.train, data, **dataclasses.asdict(settings))
        return [str(each) for each in found.findings if each.level == "stops"]

    try:
        assert not stopped()
        module.SCALE = 2.0
        assert any(
            "other processes give different weights" in each for each in stopped()
        )
    finally:
        del sys.modules["changed_later"]


def half(images, labels, seed):
    """Gradient descent on half of the records, which the seed chooses."""
    kept = np.random.default_rng(seed).permutation(len(images))[: len(images) // 2]
    x = images[kept].reshape(len(kept), -1)
    w = np.zeros((x.shape[1], 10))
    for _ in range(5):
        scores = np.exp(x @ w)
        scores /= scores.sum(axis=1, keepdims=True)
        w -= 0.5 * x.T @ (scores - np.eye(10)[labels[kept]]) / len(x)
    return w


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_targets_stand_where_the_released_models_take_them(seed, digits):
    """By another key than that of the released models other records are left out."""
    settings = AuditConfig(targets=3, fixed=60, seed=seed)
    found = auditing.check(half, digits, version="1", **dataclasses.asdict(settings))
    models = trials.train(found.subject, targets=3)
    assert np.ptp(models.released, axis=0).any()


@pytest.mark.parametrize("kind", ["raises ValueError", "gives NaN"])
def test_a_training_that_takes_no_value_beyond_its_range_is_named(kind, digits):
    def checked(images, labels, seed):
        if "raises" in kind and (images.min() < 0 or images.max() > 1):
            raise ValueError("pixels lie in [0, 1]")
        with np.errstate(invalid="ignore"):
            return half(np.sqrt(images), labels, 0)

    found = auditing.check(checked, digits, version=kind, targets=3, fixed=60)
    assert any(f"training {kind}" in each.what for each in found.findings)


def ignoring(images, labels, seed):
    return np.random.default_rng(seed).normal(size=(4, 3))


FEW = {"targets": 3, "fixed": 60, "minutes": 0.5}


def test_models_without_a_trace_of_their_records_are_no_audit():
    with pytest.raises(AuditStoppedError, match="3 released models, each"):
        informed.audit(ignoring, "digits", version="1", **FEW)


def half_left_out(images, labels, seed: int):
    """Trains on a half that the seed draws, so that some places count for nothing."""
    kept = np.random.default_rng(seed).permutation(len(images))[: len(images) // 2]
    return images[kept].reshape(len(kept), -1).sum(axis=0)


def test_a_target_is_put_where_it_counts(digits):
    last = 20
    key = check(half_left_out, digits).subject.factory("released").public_key
    seed = next(
        s for s in range(50)
        if last not in np.random.default_rng(s + key).permutation(last + 1)[
            : (last + 1) // 2
        ]
    )  # fmt: skip

    def seeded(images, labels, key: int):
        return half_left_out(images, labels, seed + key)

    found = check(seeded, digits)
    assert found.subject.position is not None
    assert any("changes nothing" in f.what and "positions" in f.what
               for f in found.findings)  # fmt: skip
    call = found.subject.call()
    images, labels = found.subject.training_set(0)
    other, _ = found.subject.training_set(1)
    moved = call.train(images, labels, key) - call.train(other, labels, key)
    assert np.abs(moved).max() > 0


def test_nan_weights_are_not_called_random():
    def exploding(images, labels, seed: int):
        return images.reshape(-1)[:3] * np.nan

    found = check(exploding)
    assert [f.what for f in found.findings] == ["3 weights are NaN or infinite"]


def test_foreign_code_has_one_thread_while_it_is_tried(digits):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    seen = []

    def counting(images, labels, seed: int):
        seen.extend(each["num_threads"] for each in threadpoolctl.threadpool_info())
        return np.asarray(images).reshape(len(images), -1).sum(axis=0)

    found = subject.prepare(
        contract.load_training(counting, version="1"), digits, targets=2
    )
    preflight.Probe(found)(found.training_set(0))
    assert seen
    assert set(seen) == {1}


def test_a_model_takes_what_it_takes(digits):
    found = check(slow_numpy, digits)
    assert 0.2 <= found.seconds_each < 0.4
    each = found.seconds_each / found.at_once
    assert found.seconds_a_model == pytest.approx(each, rel=1e-6)


def test_what_holds_no_numbers_is_named():
    def with_words(images, labels, seed: int):
        return {"w": images.reshape(len(images), -1).sum(axis=0), "vocabulary": ["Ann"]}

    found = check(with_words)
    assert any("vocabulary/0 (str)" in f.what for f in found.findings)
    assert released.left_out({"a": np.ones(2), "b": "x"}) == ["b (str)"]
