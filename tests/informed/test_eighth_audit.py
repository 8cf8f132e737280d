"""Not tried isn't failed; who knows which randomness; what pages and dossiers say."""

import dataclasses
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

import dp
import informed
import shadow
from informed.attacks.inversion import InversionConfig, TrainingInversion
from informed.attacks.membership import ReconstructionMembership
from informed.attacks.prior_aware import Evidence, published_score
from informed.attacks.row import NotApplicableError
from informed.attacks.span import SpanAttack
from informed.attacks.two_missing import TwoMissing
from informed.audit import auditing, contract, membership, playing, trained
from informed.audit.auditing import AuditConfig
from informed.cli import main
from informed.report import dossier_sentences, dossier_tables, words
from informed.runs import protection
from informed.threat import Knowledge, Reconstruction
from shadow import checks, publish, released
from tests.informed.report.test_sixth_audit import ALL, NONE, attack, document

KEY = jax.random.key(0)
SOME = {"successes": 1, "trials": 20, "rate": 0.05, "low": 0.0, "high": 0.25}


def parts_of(digits, *, dark=0, fixed=100, targets=2):
    """D_- with its first rows of pixels black, and others as they are."""
    parts = shadow.split(
        digits, num_fixed=fixed, num_shadow=100, num_test=targets, seed=0
    )
    images = parts.fixed.images.copy()
    images[:, :dark] = 0
    whole = dataclasses.replace(parts.fixed, images=images)
    return dataclasses.replace(parts, fixed=whole)


def developer(parts, **training):
    victim = shadow.build_victim(
        shadow.VictimConfig(widths=(6,)), image_shape=(8, 8, 1), num_classes=10
    )
    descent = shadow.GradientDescent(
        victim=victim, training=shadow.TrainingConfig(**training)
    )
    return shadow.Factory(
        algorithm=descent,
        fixed=parts.fixed,
        key=jax.random.key(7),
        role="released",
        width=2,
    )


# Attacks


def test_small_learning_rates_hide_no_pixel(digits):
    parts = parts_of(digits, dark=2)
    factory = developer(parts, epochs=2, learning_rate=1e-4, momentum=0.0)
    release = publish(factory.train(parts.test))
    assert parts.test.images[:, :2].any(), "the targets light what D_- never does"
    told = dataclasses.replace(
        Knowledge.informed(factory, public=parts.shadow), labels=parts.test.labels
    )
    config = InversionConfig(starts=1, neighbours=20)
    found = TrainingInversion(config=config)(release, told, key=KEY)
    assert informed.mse(parts.test.images, found.images).max() < 1e-6


def test_span_needs_to_be_told_where_training_began(digits):
    parts = parts_of(digits, fixed=40)
    for initialisation, reads in (("shared", True), ("random", False)):
        factory = developer(parts, epochs=5, initialisation=initialisation)
        release = publish(factory.train(parts.test))
        told = Knowledge.informed(factory, public=parts.shadow)
        if reads:
            found = SpanAttack()(release, told, key=KEY)
            assert informed.mse(parts.test.images, found.images).max() < 1e-6
        else:
            with pytest.raises(NotApplicableError, match="begins where nobody told"):
                SpanAttack()(release, told, key=KEY)


def test_span_takes_a_function_whose_key_decides_nothing(digits):
    parts = parts_of(digits, fixed=40)

    def train(images, labels, key):
        x = images.reshape(len(images), -1)

        def step(w, _):
            slope = x.T @ (jax.nn.softmax(x @ w) - jax.nn.one_hot(labels, 10))
            return w - 0.5 * slope / len(x), None

        return jax.lax.scan(step, jnp.zeros((64, 10)), length=5)[0]

    algorithm = shadow.JaxFunction(train=train, version="1", key_is_public=False)
    factory = shadow.Factory(
        algorithm=algorithm, fixed=parts.fixed, key=KEY, role="released", width=2
    )
    told = Knowledge.informed(factory, public=parts.shadow)
    assert told.training_key is None
    found = SpanAttack()(publish(factory.train(parts.test)), told, key=KEY)
    assert informed.mse(parts.test.images, found.images).max() < 1e-6


def test_two_missing_takes_rounded_releases(digits):
    parts = parts_of(digits, fixed=40, targets=4)
    factory = developer(parts, epochs=3)
    pairs = np.array([[0, 1], [2, 3]])
    thetas = factory.train(parts.test.take(pairs[:, 0]))
    layout = factory.descent.victim.layout
    view = shadow.Layers.of(layout, precision="float16")
    config = InversionConfig(starts=1, neighbours=5)
    attack_ = TwoMissing(
        inversion=TrainingInversion(config=config), labels=parts.test.labels[pairs]
    )
    told = Knowledge.informed(factory, public=parts.shadow)
    start = np.tile(told.initialisation, (2, 1))
    each = dataclasses.replace(told, initialisation=start)
    found = attack_(publish(thetas, view), each, key=KEY)
    assert found.images.shape[0] == 4


def test_a_label_tells_what_pictures_dont():
    images = np.zeros((40, 2, 2, 1), np.float32)
    first, second = (
        shadow.Examples(images=images, labels=np.full(40, label), num_classes=3)
        for label in (0, 1)
    )

    def named(release, knowledge, *, key):
        return Reconstruction(images=images, labels=second.labels)

    def blind(release, knowledge, *, key):
        return Reconstruction(images=images)

    release = publish(np.zeros((40, 3)))
    pair = first, second
    told = ReconstructionMembership(attack=named)(release, Knowledge(), pair, key=KEY)
    assert told.all()
    guess = ReconstructionMembership(attack=blind)(release, Knowledge(), pair, key=KEY)
    assert 8 < guess.sum() < 32, "by chance, not by position"


def test_the_published_score_takes_the_largest_of_each_epoch(rng):
    q, steps, runs, candidates = 0.05, 200, 60, 6
    gradients = rng.standard_normal((candidates, 50))
    gradients /= np.linalg.norm(gradients, axis=1)[:, None]
    chosen = rng.integers(0, candidates, runs)
    there = rng.random((runs, steps)) < q
    noisy = there[..., None] * gradients[chosen][:, None]
    noisy = noisy + 0.4 * rng.standard_normal((runs, steps, 50))
    evidence = Evidence(
        products=noisy @ gradients.T, squared=np.ones((runs, steps, candidates))
    )
    scores = published_score(evidence, steps_per_epoch=round(1 / q))
    assert (scores.argmax(axis=1) == chosen).mean() > 0.8


# Audits


def forgotten(images, labels):
    """A start that no seed decides."""
    x = images.reshape(len(images), -1)
    w = np.random.default_rng().standard_normal((x.shape[1], 10))
    for _ in range(3):
        scores = np.exp(x @ w)
        scores /= scores.sum(axis=1, keepdims=True)
        w -= 0.5 * x.T @ (scores - np.eye(10)[labels]) / len(x)
    return w


def forest(images, labels, seed):
    flat = images.reshape(len(images), -1)
    return RandomForestClassifier(3, random_state=seed).fit(flat, labels)


def bundle(images, labels):
    flat = images.reshape(len(images), -1)
    model = KNeighborsClassifier(1).fit(flat, labels)
    return {"centre": np.median(flat, axis=0), "model": model}


def checked(train, digits, **more):
    settings = AuditConfig(targets=2, fixed=40, minutes=0.5)
    return auditing.check(train, digits, version="1", settings=settings, **more)


def test_a_forgotten_seed_is_no_protection(digits):
    found = checked(forgotten, digits)
    assert not found.facts.deterministic
    models = trained.train(found.subject, targets=2)
    trials = {row.name: playing.left_out(row, models, found) for row in playing.rows()}
    assert trials["inversion"].applies, "it wasn't tried, so a gate counts it"
    assert "other weights" in trials["inversion"].why_not
    assert "seed" not in trials["inversion"].knows
    pairs = membership.of_two(models, 0.01, limit=60.0)
    assert pairs["rate"] is None
    assert "equal arguments give other weights" in pairs["why_not"]


@pytest.mark.parametrize("error", [ValueError, TypeError])
def test_a_predict_that_raises_is_no_missing_predict(error, digits):
    def predict(returned, images):
        raise error("row [0.4, 1.0] of patient Smith is out of range")

    found = checked(forgotten, digits, predict=predict)
    said = next(each for each in found.findings if "predict raised" in each.what)
    assert error.__name__ in said.what
    assert not any("Smith" in (each.remedy or "") for each in found.findings)
    models = trained.train(found.subject, targets=2)
    rows = [row for row in playing.rows() if row.sees == "answers"]
    assert all(playing.left_out(row, models, found).applies for row in rows)


def test_trees_are_audited_by_their_file(digits):
    found = checked(forest, digits)
    assert not found.subject.comparable
    assert not any("key changes nothing" in each.what for each in found.findings)
    assert not found.stops
    row = next(row for row in playing.rows() if row.sees == "artefact")
    models = trained.train(found.subject, targets=2)
    trial = playing.attempt(row, models, found, limit=60.0)
    assert trial.finished is not None


def test_a_forest_without_a_seed_is_seen_and_one_with_noise_is_not_audited(digits):
    def unseeded(images, labels):
        return RandomForestClassifier(3).fit(images.reshape(len(images), -1), labels)

    found = checked(unseeded, digits)
    assert not found.subject.deterministic
    assert any("another model" in each.what for each in found.findings)
    noise = {"noise_multiplier": 5.0, "steps": 1, "clip_norm": 1.0}
    found = checked(forest, digits, privacy=noise)
    assert any("no weights in which noise" in each.what for each in found.stops)


def test_an_estimator_within_something_is_named(digits):
    left = released.left_out(bundle(digits.images[:40], digits.labels[:40]))
    assert left == ["model (KNeighborsClassifier, beside its arrays of floats)"]
    found = checked(bundle, digits)
    assert any("KNeighborsClassifier" in each.what for each in found.findings)


def test_a_file_that_was_edited_is_read_again(tmp_path):
    file = tmp_path / "edited_training.py"
    (tmp_path / "beside_it.py").write_text("RATE = 1\n")
    file.write_text("def train(images, labels):\n    return 1\n")
    first = contract.load(f"{file}:train")
    file.write_text(
        "from beside_it import RATE\ndef train(images, labels):\n    return 1 + RATE\n"
    )
    second = contract.load(f"{file}:train")
    assert (first.version == second.version) is False
    assert second.train(None, None) == 2
    assert first.train(None, None) == 1, "an audit has one code from first to last"
    file.write_text("from beside_it import RATE\ndef train(x, y):\n    return 9\n")
    assert contract.load(f"{file}:train").train(None, None) == 9
    (tmp_path / "beside_it.py").write_text("RATE = 2\n")
    with pytest.raises(ValueError, match=r"beside_it\.py was changed"):
        contract.load(f"{file}:train")
    sys.modules.pop("beside_it")


def test_options_that_do_nothing_are_refused(capsys):
    with pytest.raises(checks.FieldError, match="threshold"):
        AuditConfig(threshold=0.2)
    for words_ in (
        ["--check", "--out", "never.html"],
        ["--release", "w.npz", "--record", "3", "--seed", "7"],
    ):
        with pytest.raises(SystemExit):
            main(["audit", "mine.py:train", "--data", "digits", *words_])
        assert "Expected no" in capsys.readouterr().err


# What is said


def test_the_dossier_has_the_attack_that_succeeds_most():
    rows = (
        attack("span", SOME),
        attack("kernel", ALL, exact=NONE, mse_median=9e-4),
    )
    values = document(*rows)
    told = dossier_tables.measured(values)
    assert (told["attack"], told["success"]) == ("kernel", ALL)
    assert (told["exact_by"], told["exact"]) == ("span", SOME)


@pytest.mark.parametrize("others", [attack("kernel", SOME, exact=NONE), None])
def test_two_missing_is_never_left_out(others):
    rows = [attack("two missing", ALL)] + ([others] if others else [])
    values = document(*rows, membership=[], defences=[], kind="audit", preflight=None)
    said = " ".join(words.answer(values))
    assert '"two missing", on more than one record at once, read exactly' in said
    assert "nothing about reconstruction" not in said
    left = dossier_sentences.residual(values)
    assert any("two missing" in each.text for each in left)
    assert not any("risk is unknown" in each.text for each in left)


def test_a_broken_noise_declaration_is_seen(monkeypatch, rng, digits):
    run = dp.Gaussian(noise_multiplier=6.0, steps=1, relation="replace_one")
    own = protection.Accounted(target=None, any_record=None, replaced=run, how="")
    monkeypatch.setattr(protection, "accounted", lambda developer: own)
    images = rng.random((15, 8, 8, 1)).astype(np.float32)
    truth = shadow.ShadowModels(
        weights=np.zeros((15, 3), np.float32),
        images=images,
        labels=np.zeros(15, np.int32),
    )
    found = protection.against(
        {"epsilon": 1.0, "label_bound": 1.0},
        developer(parts_of(digits)),
        truth,
        {"images": images},
    )
    assert found["roc_violations"] > 0
