"""What a few runs tell; planted faults are found, with their remedies."""

import contextlib
import dataclasses
import time

import jax.numpy as jnp
import numpy as np
import pytest

import shadow
from informed.attacks import registry
from informed.attacks.row import Material
from informed.audit import (
    auditing,
    budget,
    instability,
    trained,
)
from informed.audit.auditing import AuditConfig
from informed.cli import audit
from informed.play import play
from shadow import limits
from tests.informed.audit.trainings import linear


def numpy_linear(images, labels, seed: int):
    x = images.reshape(len(images), -1)
    start = np.random.default_rng(seed).standard_normal(x.shape[1])
    return start + x.T @ labels / len(x)


def check(train, data="digits", **config):
    settings = AuditConfig(**{"targets": 2, "fixed": 20, "minutes": 1.0, **config})
    return auditing.check(train, data, version="1", settings=settings)


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


def noisy_numpy(images, labels, seed: int):
    x = images.reshape(len(images), -1)
    np.random.shuffle(x)  # noqa: NPY002
    return np.arange(len(x)) @ x


def test_unseeded_randomness_is_found():
    found = check(noisy_numpy)
    assert not found.subject.deterministic
    (finding,) = [f for f in found.findings if f.level == "weakens"]
    assert finding.what == "the same arguments give other weights"
    assert "draw everything from the key" in finding.remedy


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


def doubled(images, labels, key):
    """As `linear`, then bits of the weights shifted out in front."""
    return linear(images, labels, key) * 2.0**20 % 1.0


def test_chaos_is_found_and_said():
    found = check(doubled)
    assert found.instability.chaotic
    (finding,) = [f for f in found.findings if f.level == "weakens"]
    assert "protected by instability, not by design" in finding.what
    assert f"exponent {found.instability.words}" in finding.what
    assert found.values["instability"]["chaotic"]
    assert not check(linear).instability.chaotic


@pytest.fixture
def public(rng):
    images = rng.random((16, 2, 2, 1))
    return shadow.Examples(images=images, labels=np.arange(16) % 2, num_classes=2)


def test_what_is_linear_grows_by_nothing(rng, public):
    matrix = rng.standard_normal((4, 50))
    found = instability.measure(lambda z, *_: z.reshape(-1, 4) @ matrix, public)
    assert found.growth == pytest.approx(1)
    assert found.exponent == pytest.approx(0, abs=1e-9)
    assert not found.saturated
    assert not found.chaotic
    assert instability.measure(lambda z, *_: np.ones((len(z), 3)), public) is None


def test_the_exponent_of_the_tent_map_is_ln_2_a_step(rng, public):
    """Until twins are as far apart as strangers."""
    matrix = rng.standard_normal((4, 400))

    def after(steps):
        return instability.measure(
            lambda z, *_: np.abs(z.reshape(-1, 4) @ matrix * 2.0**steps % 2 - 1), public
        )

    few, more, many = after(6), after(9), after(30)
    assert more.exponent - few.exponent == pytest.approx(3 * np.log(2), abs=0.1)
    assert not few.saturated
    assert many.saturated
    assert many.chaotic
    assert many.exponent == pytest.approx(np.log(1e4), abs=0.1)


def test_a_function_that_raises_is_named():
    def broken(images, labels, key):
        raise KeyError("weights")

    with pytest.raises(RuntimeError, match="broken raised KeyError"):
        check(broken)


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


def test_embeddings_are_data(rng, tmp_path):
    arrays = {"embeddings": rng.standard_normal((60, 4)), "labels": np.arange(60) % 2}
    np.savez(tmp_path / "e.npz", **arrays)

    def train(rows, labels):
        assert rows.shape == (21, 4)
        return np.linalg.lstsq(rows, labels, rcond=None)[0]

    for data in (arrays, str(tmp_path / "e.npz")):
        found = check(train, data)
        assert not found.stops
        assert found.subject.fixed.image_shape == (1, 4, 1)


def plan(**changed):
    given = {
        "minutes": 10.0,
        "seconds_a_model": 0.1,
        "targets": 20,
        "public": 5000,
        "params": 1000,
        "features": 64,
        "num_classes": 10,
        "differentiable": True,
    }
    return budget.plan(**{**given, **changed})


def test_the_budget_is_kept():
    found = plan()
    assert found.targets == 20
    assert found.most_shadows == 5000
    assert plan(seconds_a_model=10.0).targets == 6
    assert plan(public=40).most_shadows == 40
    assert plan(public=20).most_shadows == 0
    with pytest.raises(ValueError, match=r"minutes.*a model takes 100 s"):
        plan(minutes=1.0, seconds_a_model=100.0)


def test_a_limit_interrupts_and_is_taken_back():
    with pytest.raises(limits.OutOfTimeError), limits.seconds(0.05):
        time.sleep(5)
    with limits.seconds(0.05):
        pass
    time.sleep(0.08)


def test_where_no_time_is_left_nothing_begins():
    with pytest.raises(limits.OutOfTimeError, match="No time"), limits.seconds(0.0):
        pytest.fail("it was begun")


def test_a_limit_that_is_taken_for_another_error_comes_again():
    def reads_a_cache():
        with contextlib.suppress(Exception):
            time.sleep(5)
        time.sleep(5)

    with pytest.raises(limits.OutOfTimeError), limits.seconds(0.05, again=0.05):
        reads_a_cache()
    time.sleep(0.12)


class Endless:
    def each(self, release, knowledge, *, key):
        time.sleep(20)
        yield


def test_trainings_of_an_inversion_without_time_are_not_counted(tmp_path):
    models = trained.train(check(linear).subject, targets=2, shadows=0)
    row = registry.find("inversion")
    row = dataclasses.replace(row, make=lambda config, material: Endless())
    material = Material(workdir=tmp_path, key=models.key)
    told = models.knowledge()
    found = play(row, material, models.weights, told, key=models.key, limit=0.1)
    assert found.finished.tolist() == [False]
    assert np.isnan(found.images).all()
    assert found.trainings is None
    assert "out of time at target 1 of 2" in found.why_not


def test_shadow_still_loads_by_name():
    assert len(shadow.load("digits")) == 1797
