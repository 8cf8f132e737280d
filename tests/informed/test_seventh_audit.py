"""What was cut off, withheld or rounded on the developer's side."""

import dataclasses
import time

import jax
import numpy as np
import pytest
from artefacts import registry as readers
from informed.attacks.linear_estimator import LinearEstimatorAttack
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, PoissonRegressor, Ridge
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import informed
import shadow
from informed.attacks import registry
from informed.attacks.inversion.attack import _first_explained
from informed.attacks.inversion.certificate import Candidate
from informed.attacks.row import Material
from informed.audit import gallery
from informed.cli.audit import gated
from informed.cli.gate import Gate, GateFailedError
from informed.metrics import judging
from informed.play import Trial, play
from informed.report import dossier_sentences, words
from informed.runs import experiment as experiments
from informed.runs import stored
from informed.threat import Knowledge
from shadow import limits, released
from tests.informed.audit.test_gallery import QUICK, mean
from tests.informed.report.test_sixth_audit import attack, document

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def records():
    """Rows of wines in [0, 1], as images of one row, and whole labels."""
    data, labels = load_wine(return_X_y=True)
    scaled = (data - data.min(axis=0)) / np.ptp(data, axis=0)
    order = np.random.default_rng(0).permutation(len(scaled))
    return shadow.Examples(
        images=scaled[order][:, None, :, None].astype(np.float32),
        labels=labels[order],
        num_classes=3,
    )


def flat(examples):
    return examples.images.reshape(len(examples), -1).astype(np.float64)


def played(row, records, fitted, tmp_path, *, limit=60.0, **material):
    """An attack on estimators that were fitted on D_- and a target each."""
    return play(
        registry.find(row),
        Material(workdir=tmp_path, key=KEY, **material),
        fitted,
        Knowledge(fixed=records.take(slice(0, 60))),
        key=KEY,
        limit=limit,
        stumbling=True,
    )


def with_target(records, make):
    """Fits on 60 known records and one of the next three."""
    known, rows = records.take(slice(0, 60)), []
    for i in range(60, 63):
        target = records.take(slice(i, i + 1))
        x = np.concatenate([flat(known), flat(target)])
        rows.append(make().fit(x, np.append(known.labels, target.labels)))
    return rows


def test_no_handler_of_errors_goes_on_after_the_time_is_over():
    """As those of readers, and of scikit-learn's searches."""

    def stubborn():
        try:
            time.sleep(5)
        except Exception:
            return "took the end of its time for an error of its own"

    with pytest.raises(limits.OutOfTimeError), limits.seconds(0.1):
        stubborn()


def test_the_end_of_a_time_within_xla_is_the_end_of_a_time():
    """What XLA calls hands on an error of its own in the place of any other."""

    def slow(value):
        time.sleep(2)
        return value

    @jax.jit
    def called(value):
        return jax.pure_callback(slow, jax.ShapeDtypeStruct((), np.float32), value)

    with pytest.raises(limits.OutOfTimeError), limits.seconds(0.3):
        jax.block_until_ready(called(np.float32(1)))
    with pytest.raises(KeyError), limits.seconds(5.0):
        raise KeyError("its own")


def test_a_reading_that_time_cuts_off_is_no_reading_that_failed(
    records, tmp_path, monkeypatch
):
    """The scaler's interval alone isn't what a whole reading would have told."""
    kind = readers.kind_of("RandomForestClassifier")

    def slow(leaf):
        time.sleep(1.0)
        return kind.read(leaf)

    monkeypatch.setitem(
        readers.KINDS, "RandomForestClassifier", dataclasses.replace(kind, read=slow)
    )
    fitted = with_target(
        records,
        lambda: make_pipeline(
            MinMaxScaler(), RandomForestClassifier(5, random_state=0)
        ),
    )
    trial = played("artefact", records, fitted, tmp_path, limit=1.5)
    assert trial.finished.sum() <= 1
    assert trial.why_not


@pytest.mark.parametrize(
    "make", [LinearRegression, lambda: Ridge(0.1), PoissonRegressor]
)
def test_a_regressors_intercept_is_released(records, make):
    """It is a single number there; without it the template's was used."""
    fitted = with_target(records, make)
    names = [part.name for part in released.parts(fitted[0])]
    assert "intercept_" in names
    theta = np.concatenate([np.ravel(p.array) for p in released.parts(fitted[1])])
    again = released.with_theta(fitted[0], theta)
    x = flat(records)
    np.testing.assert_array_equal(again.predict(x), fitted[1].predict(x))


def test_the_closed_form_reads_every_target_of_a_regression(records):
    fitted = with_target(records, lambda: Ridge(0.1))
    thetas = np.stack(
        [np.concatenate([np.ravel(p.array) for p in released.parts(f)]) for f in fitted]
    )
    found = LinearEstimatorAttack(template=fitted[0])(
        shadow.publish(thetas),
        Knowledge(fixed=records.take(slice(0, 60))),
        key=KEY,
    )
    errors = np.abs(found.images - records.images[60:63]).max(axis=(1, 2, 3))
    assert (errors < 1e-3).all()


def test_a_position_that_is_told_is_used(rng, tmp_path):
    """Which fold of a cross-validation has the row follows from its place."""
    folds = KFold(5, shuffle=True, random_state=0)
    labels = rng.integers(0, 3, 400)
    values = (labels[:, None] + rng.normal(size=(400, 4)) + 4) / 12
    examples = shadow.Examples(
        images=values[:, None, :, None].clip(0, 1).astype(np.float32),
        labels=labels,
        num_classes=3,
    )
    fitted = CalibratedClassifierCV(GaussianNB(), cv=folds).fit(flat(examples), labels)
    knowledge = Knowledge(fixed=examples.take(slice(0, 399)))

    def read(**told):
        material = Material(workdir=tmp_path, key=KEY, **told)
        row = registry.find("artefact")
        return play(row, material, [fitted], knowledge, key=KEY, stumbling=True)

    told = read(position=399)
    assert told.certified.tolist() == [True]
    np.testing.assert_allclose(told.images[0], examples.images[399], atol=1e-6)
    assert read().certified.tolist() == [False]


@pytest.fixture(scope="module")
def audited(digits):
    """The arguments with which an audit names records out of its gallery."""
    seen = {}
    patch = pytest.MonkeyPatch()
    original = gallery.named

    def named(models, trials, pool, **settings):
        seen.update(models=models, trials=trials, pool=pool, settings=settings)
        return original(models, trials, pool, **settings)

    patch.setattr(gallery, "named", named)
    seen["audit"] = informed.audit(mean, digits.take(np.arange(400)), **QUICK).values
    patch.undo()
    return seen


def again(audited, trials, **changed):
    return gallery.named(
        audited["models"], trials, audited["pool"], **audited["settings"] | changed
    )


def guesses(audited, kept):
    """Of the targets themselves; NaN, or nothing, for those that aren't kept."""
    images = audited["models"].targets.images.copy()
    return Trial(name="a", about="", sees="", knows="", images=images[:kept])


def test_a_gallery_that_was_not_tried_passes_no_gate(audited):
    def gate(found):
        values = dict(audited["audit"], gallery=found)
        Gate.parse("named > 0", "audit").require(gated(values))

    nothing = guesses(audited, 3)
    nothing.images[:] = np.nan
    found = again(audited, [nothing])
    assert found["first"] is None
    assert found["why_not"] == "no attack has a guess"
    with pytest.raises(GateFailedError):
        gate(found)
    # Guesses far from the targets, and time for two trainings of each.
    wrong = guesses(audited, 3)
    wrong.images[:] = audited["pool"].images[:3]
    seconds = 100.0
    found = again(audited, [wrong], seconds_a_model=seconds, limit=7 * seconds)
    assert (found["tried"], found["first"]) == (2, 0)
    assert "time for 2 of" in found["why_not"]
    with pytest.raises(GateFailedError):
        gate(found)
    found = again(audited, [wrong])
    assert found["why_not"] == ""


def test_what_an_attack_read_before_it_was_cut_off_counts_in_a_gallery(audited):
    found = again(audited, [guesses(audited, 2)])
    assert (found["attempted"], found["first"]) == (2, 2)
    assert "for the others" in found["why_not"]


def test_a_training_that_diverges_is_not_the_nearest(audited, monkeypatch):
    thetas = gallery.Retraining.thetas

    def diverging(self, images, labels, *more, **named):
        found = np.array(thetas(self, images, labels, *more, **named))
        targets = audited["models"].targets.images
        own = (images[:, 0, None] == targets[None]).all(axis=(2, 3, 4)).any(axis=1)
        found[np.flatnonzero(~own)[:1]] = np.nan
        return found

    monkeypatch.setattr(gallery.Retraining, "thetas", diverging)
    found = again(audited, [guesses(audited, 3)])
    assert found["first"] == 3


def test_a_candidate_of_which_nothing_is_known_is_passed_over():
    def candidate(residual):
        return Candidate(
            images=np.full((1, 2, 2, 1), residual, np.float32),
            labels=np.zeros(1, int),
            residual=residual,
            explained=False,
            certified=False,
            expected_mse=1.0,
            if_levels=False,
        )

    found = _first_explained(iter(map(candidate, (np.nan, 1e-3, 1e-2))))
    assert found.residual == 1e-3
    assert np.isnan(_first_explained(iter([candidate(np.nan)])).residual)


def test_the_upper_end_is_that_of_the_attack_that_says_least():
    many = {"successes": 0, "trials": 20, "rate": 0.0, "low": 0.0, "high": 0.168}
    few = {"successes": 0, "trials": 2, "rate": 0.0, "low": 0.0, "high": 0.8418}
    values = document(
        attack("kernel", many),
        attack("inversion", few, finished=2),
        membership=[],
        kind="audit",
    )
    assert words.up_to(values) == (
        "85 %",
        ' for the attack "inversion", finished for 2',
    )
    said = words._found(values)
    assert 'up to 85 % for the attack "inversion", finished for 2)' in said
    assert gated(values | {"baselines": []})["success_upper"] == 0.8418
    alone = document(attack("kernel", many), membership=[])
    assert words.up_to(alone) == ("17 %", "")


def test_records_that_are_exact_are_read_however_near_an_imputed_column(records):
    """Every column stands twice, so that each can be had from the other."""
    twice = np.concatenate([records.images, records.images], axis=2)
    examples = dataclasses.replace(records, images=twice)
    truth, pool = examples.take(slice(0, 10)), examples.take(slice(10, None))
    groups = np.arange(twice.shape[2])
    found = judging.baselines(truth, pool, groups=groups)
    close = (truth.images + 1e-5).astype(np.float32)
    trial = Trial(
        name="a", about="", sees="", knows="", images=close, finished=np.ones(10, bool)
    )
    row = judging.judge(trial, truth, pool, found)
    read = judging.read(trial, truth, pool, found)
    assert row["success"]["successes"] == read.sum() == 10
    least = judging.thresholds(found)
    errors = judging.errors(trial, truth)
    rows = [
        {
            "record": i,
            "best_mse": float(errors[i]),
            "without_release_mse": float(least[i]),
            "read": bool(read[i]),
            "certified": None,
            "mse": {"a": float(errors[i])},
        }
        for i in range(10)
    ]
    values = document(attack("a", row["success"], certified_wrong=0), records=rows)
    said = dossier_sentences.worst(values)[-1].text
    assert said.startswith("Of 10 records 10 are read better")


def test_what_a_function_of_the_users_loads_is_in_the_record(records):
    """Its name stays, what it loads may not."""
    images = [records, dataclasses.replace(records, images=1 - records.images)]
    experiment = experiments.Experiment(data=experiments.DataConfig(name="seventh"))

    def record(examples):
        def load_seventh():
            return examples

        shadow.register_source("seventh", load_seventh)
        return stored.shadow_record(experiment).configuration["files"]

    first, again, other = map(record, (*images[:1] * 2, images[1]))
    assert first == again
    assert set(first) == {"seventh"}
    assert first != other
