"""Findings of the third audit on audits: each failed before it was mended."""

from sklearn import ensemble, linear_model, naive_bayes, preprocessing
from sklearn.pipeline import make_pipeline

import informed
from informed.report import words

SKIPPED = ("inversion", "membership", "two missing", "defences")


def scaled(images, labels):
    x = images.reshape(len(images), -1)
    scaler, model = preprocessing.StandardScaler(), linear_model.RidgeClassifier()
    return make_pipeline(scaler, model).fit(x, labels)


def bagged(images, labels):
    x = images.reshape(len(images), -1)
    model = ensemble.BaggingClassifier(
        naive_bayes.GaussianNB(), n_estimators=2, random_state=0
    )
    return model.fit(x, labels)


def audited(train):
    return informed.audit(
        train, "digits", version="1", targets=3, fixed=60, minutes=0.5, skip=SKIPPED
    )


def test_an_artefact_that_is_not_read_is_said_first_and_no_failed_attack():
    values = audited(bagged).values
    row = next(row for row in values["attacks"] if row["name"] == "artefact")
    assert (row["finished"], row["success"]) == (0, None)
    assert row["why_not"].startswith("3 of 3 estimators could not be read: Bagging")
    assert any("Artefact finished 0 of 3" in each for each in words.answer(values))
