"""The attack on fitted linear models, as audits play it."""

import jax
import numpy as np
from sklearn import ensemble, linear_model
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from informed.attacks import registry
from informed.attacks.attack_row import Facts, Material
from shadow.threat import Knowledge
from tests.informed.attacks.span.test_networks import letters

KEY = jax.random.key(0)
ROW = registry.find("closed_form")


def play(model, examples, count, tmp_path):
    """The attack on a model of `count` known records and the target behind them."""
    rows = examples.images.reshape(len(examples), -1)[: count + 1].astype(float)
    fitted = model.fit(rows, examples.labels[: count + 1])
    attack = ROW.attack(ROW.settings(), Material(workdir=tmp_path, key=KEY))
    knowledge = Knowledge(fixed=examples.take(np.arange(count)))
    return attack([fitted], knowledge, key=KEY), attack.note


def test_more_records_than_pixels_are_read_by_the_optimum(tmp_path):
    examples = letters(0, rows=451, side=20)
    answer, note = play(linear_model.RidgeClassifier(), examples, 450, tmp_path)
    assert note == ""
    assert np.abs(answer.images - examples.images[450:]).max() < 1e-4
    # Two classes are one output, which no wrong known record would show in.
    assert not answer.certified.any()


def test_fewer_records_than_pixels_are_read_off_the_span(tmp_path):
    examples = letters(2)
    model = linear_model.LogisticRegression(max_iter=5)
    answer, note = play(model, examples, 60, tmp_path)
    assert note == ""
    assert np.array_equal(answer.images, examples.images[60:61])
    assert answer.certified.all()


def test_the_means_of_a_scaler_are_read_first(tmp_path):
    examples = letters(3, rows=41, side=3)
    model = make_pipeline(StandardScaler(), linear_model.LogisticRegression())
    answer, _ = play(model, examples, 40, tmp_path)
    assert np.abs(answer.images - examples.images[40:]).max() < 1e-6
    assert answer.labels.tolist() == examples.labels[40:].tolist()


def test_a_model_that_does_not_determine_its_target_is_named(tmp_path):
    examples = letters(4, rows=41, side=3)
    model = linear_model.Ridge(fit_intercept=False)
    answer, note = play(model, examples, 40, tmp_path)
    assert np.isfinite(answer.images).all()
    assert "without intercept" in note


def test_when_it_applies():
    assert ROW.why_not(Facts(returned=linear_model.Ridge())) == ""
    forest = ensemble.RandomForestClassifier()
    assert "StandardScaler" in ROW.why_not(Facts(returned=forest))
    assert "linear models" in ROW.why_not(Facts())
