"""Values that nobody else has, errors of users' code, names of arrays, other stores."""

import importlib
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from informed.attacks.linear_estimator import LinearEstimatorAttack
from joblib.externals import loky
from sklearn.linear_model import LinearRegression

import informed
import shadow
from dp.gradient import PrivacyConfig
from informed.attacks.inversion import InversionConfig, TrainingInversion
from informed.attacks.inversion.coordinates import principal_components
from informed.attacks.inversion.retraining import Retraining
from informed.attacks.span import SpanAttack
from informed.audit import auditing, gallery
from informed.cli.audit import gated
from informed.report import report, words
from informed.report.report import Report
from informed.runs import protection, reporting
from informed.runs.stages import Stage
from informed.threat import Knowledge
from shadow import publish, released
from shadow.records import ConfigurationMismatchError, Record
from tests.informed.report.test_sixth_audit import ALL, attack, document
from tests.informed.test_eighth_audit import developer, parts_of

KEY = jax.random.key(0)


def examples(rows, labels, num_classes):
    images = np.asarray(rows, np.float32).reshape(len(rows), 1, -1, 1)
    return shadow.Examples(
        images=images, labels=np.asarray(labels, np.int32), num_classes=num_classes
    )


def sums(images, labels, key):
    """One row of numbers for each class that there is."""
    features = images.reshape(len(images), -1).astype(np.float64)
    return [features[labels == label].sum(axis=0) for label in np.unique(labels)]


def counted(images, labels, key):
    features = images.reshape(len(images), -1).astype(np.float64)
    found = [features[labels == label].sum(axis=0) for label in range(3)]
    return [*found, np.bincount(labels, minlength=3).astype(np.float64)]


# Attacks


def test_a_record_whose_model_has_another_size_is_not_the_one(rng):
    rows = rng.random((12, 4))
    fixed = examples(rows[:8], np.arange(8) % 2, 3)
    factory = shadow.Factory(
        algorithm=shadow.PythonFunction(train=sums, version="1"),
        fixed=fixed, key=KEY, role="released",
    )  # fmt: skip
    theta = factory.train(examples(rows[8:9], [1], 3))[0]
    training = Retraining(Knowledge.informed(factory), width=4, draws=1, key=KEY)
    images = rows[[9, 8, 10]].astype(np.float32).reshape(3, 1, 4, 1)
    apart = gallery._apart(training, images, np.array([2, 1, 0]), theta)
    assert np.isinf(apart[0])
    assert apart[1] == 0
    assert 0 < apart[2] < np.inf


def test_a_copy_of_the_only_record_of_its_class_is_read(rng):
    rows = rng.integers(0, 256, (12, 6)) / np.float32(255)
    labels = np.array([0] * 6 + [1] * 5 + [2])
    fixed = examples(rows, labels, 3)
    factory = shadow.Factory(
        algorithm=shadow.PythonFunction(train=counted, version="1"),
        fixed=fixed, key=KEY, role="released",
    )  # fmt: skip
    release = publish(factory.train(fixed.take(np.array([11]))))
    told = Knowledge.informed(factory)
    found = TrainingInversion()(release, told, key=KEY)
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
    told = Knowledge.informed(factory)
    found = TrainingInversion(config=config)(release, told, key=KEY)
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
    told = Knowledge.informed(factory, public=public)
    attack_ = TrainingInversion(config=InversionConfig(engine="derivatives"))
    found = attack_(publish(factory.train(target)), told, key=KEY)
    assert found.certified.all()
    assert informed.mse(target.images, found.images).max() < 1e-9


def test_one_known_record_tells_no_spread():
    with pytest.raises(ValueError, match="at least two known records"):
        principal_components(np.zeros((1, 2, 2, 1)))


def test_outputs_of_a_regression_are_labels_to_rounding(rng):
    wrong = 0
    for _ in range(10):
        rows, labels = rng.random((40, 6)).astype(np.float32), rng.integers(0, 10, 40)
        model = LinearRegression().fit(rows.astype(np.float64), labels)
        arrays = [np.ravel(part.array) for part in released.parts(model)]
        release = publish(np.concatenate(arrays)[None])
        told = Knowledge(fixed=examples(rows[1:], labels[1:], 10))
        found = LinearEstimatorAttack(template=model)(release, told, key=KEY)
        wrong += found.labels[0] != labels[0]
    assert wrong == 0


def test_span_looks_past_copies_among_the_first_records(digits):
    parts = parts_of(digits, fixed=40)
    images, labels = parts.fixed.images.copy(), parts.fixed.labels.copy()
    images[1], labels[1] = images[0], labels[0]
    fixed = shadow.Examples(images=images, labels=labels, num_classes=10)
    factory = developer(parts.__class__(**{**vars(parts), "fixed": fixed}), epochs=5)
    release = publish(factory.train(parts.test))
    found = SpanAttack()(release, Knowledge.informed(factory), key=KEY)
    assert informed.mse(parts.test.images, found.images).max() < 1e-6


# Users' own code

QUICK = {
    "fixed": 30, "targets": 2, "minutes": 0.5, "version": "1",
    "skip": ("inversion", "two missing", "membership", "defences"),
}  # fmt: skip


def test_noise_that_cannot_be_left_out_ends_no_audit(digits):
    def train(images, labels, seed: int, noise_multiplier=2.0):
        noise = np.random.default_rng(seed).normal(size=64) / (1 / noise_multiplier)
        return images.reshape(len(images), -1).sum(axis=0) + noise

    privacy = {"noise_multiplier": 2.0, "steps": 1}
    data = digits.take(np.arange(300))
    found = informed.audit(train, data, privacy=privacy, **QUICK)
    assert found.values["bounds"]["rows"]
    assert (
        "no model could be trained without noise" in found.values["bounds"]["why_not"]
    )


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
    settings = auditing.AuditConfig(targets=2, fixed=30, minutes=0.5)
    held = data.images.copy()
    found = auditing.check(train, data, predict=predict, settings=settings, version="1")
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
        found = auditing.check(module.train, data, settings=settings)
        return [str(each) for each in found.findings if each.level == "stops"]

    try:
        assert not stopped()
        module.SCALE = 2.0
        assert any("other processes give other weights" in each for each in stopped())
    finally:
        del sys.modules["changed_later"]


# Reports


def test_names_of_arrays_are_redacted():
    subject = document()["subject"] | {"arrays": [["Alice Smith", [10, 64]]]}
    finding = "no attack reads Alice Smith (str)"
    values = document(subject=subject, preflight={"findings": [finding]})
    shown = json.dumps(Report(values=values).redacted)
    assert "Alice" not in shown
    assert "[10, 64]" in shown
    assert "no attack reads some arrays" in shown


def test_a_message_is_silent_in_what_a_dossier_is_made_of():
    why = "it stopped with ValueError: could not convert 'Ely, 1 High St'"
    values = document(attack("artefact", None, why_not=why))
    assert "Ely" not in json.dumps(report.redacted(values))
    # Twice is as once: a document may have been redacted before.
    once = report.redacted(values)
    assert report.redacted(once) == once


def test_records_that_time_left_out_are_said_and_gated():
    values = document(attack("inversion", ALL))
    asked = values["subject"]["targets"] + 16
    values["configuration"] = {"targets": asked}
    assert gated(values)["unfinished"] == 16
    assert any("for lack of time" in each for each in words.unfinished(values))


def test_a_report_refuses_stores_that_were_made_again(tmp_path, split):
    factory = developer(split, epochs=1)
    store = shadow.ShadowStore.create(
        tmp_path / "made", split=split, algorithm=factory.algorithm, role="released",
        block_size=10, configuration={}, initialisation=None,
    )  # fmt: skip
    for fingerprint, fits in ((store.fingerprint(), True), ("another", False)):
        record = Record.of({"released_fingerprint": fingerprint})
        folder = tmp_path / str(fits)
        with Stage(folder, "evaluate", record, outputs=[]).running():
            pass
        if fits:
            reporting._require_evaluated(folder, released=store)
            continue
        with pytest.raises(ConfigurationMismatchError, match="The released models in"):
            reporting._require_evaluated(folder, released=store)


def test_what_is_known_of_a_target_breaks_no_bound(digits):
    private = PrivacyConfig(noise_multiplier=1000.0, clip_norm=1.0)
    parts = parts_of(digits, fixed=30, targets=40)
    factory = developer(parts, epochs=2, privacy=private)
    theory = protection.of(factory, parts.fixed.labels)
    models = shadow.ShadowModels.of(factory.train(parts.test), parts.test)
    guess = np.full_like(parts.test.images, 0.3)
    guess[:, :4] = parts.test.images[:, :4]
    given = {"images": guess, "labels": parts.test.labels}
    seen = protection.against(theory, factory, models, given)
    assert seen["roc_violations"]
    told = protection.against(theory, factory, models, given, known=True)
    assert set(told.values()) == {None}
