"""Naming a record out of a gallery by training again: planted trainings."""

import jax
import numpy as np
import pytest

import informed
import shadow
from informed.attacks import gallery, registry
from informed.attacks.attack_row import Material, NoSettings, NotApplicableError
from informed.attacks.gallery import GalleryAttack
from informed.attacks.inversion.retraining import Programs, Retraining
from informed.cli.gate import GateFailedError, require
from informed.metrics import judging
from informed.play import play
from informed.report import words
from shadow import publish

KEY = jax.random.key(0)
QUICK = {
    "fixed": 40,
    "targets": 3,
    "minutes": 1.0,
    "skip": ("noise",),
    "version": "1",
}


def mean(images, labels):
    """Tells the missing record, and its label."""
    features = images.reshape(len(images), -1)
    return np.stack([features[labels == c].sum(axis=0) for c in range(10)])


def counted(images, labels):
    """Tells the label alone."""
    return np.bincount(labels, minlength=10).astype(np.float64)


def keyed(train):
    return lambda images, labels, key: train(images, labels)


class Game:
    """Three released models of a training, and a gallery that holds their records."""

    def __init__(self, digits, train):
        self.targets = digits.take(np.arange(3))
        self.pool = digits.take(np.arange(50, 250))
        self.gallery = self.pool.joined(self.targets)
        factory = shadow.Factory(
            algorithm=shadow.PythonFunction(train=keyed(train), version="1"),
            fixed=digits.take(np.arange(300, 340)), key=KEY, role="released",
        )  # fmt: skip
        self.told = factory.knowledge()
        self.release = publish(factory.train(self.targets))

    def play(self, tmp_path, *guesses, **more):
        material = Material(
            workdir=tmp_path, key=KEY, gallery=self.gallery, guesses=guesses, **more
        )
        row = registry.find("gallery")
        limit = 100.0 if "seconds_a_model" in more else float("inf")
        return play(row, material, self.release, self.told, key=KEY, limit=limit)

    def judged(self, trial):
        found = judging.baselines(self.targets, self.pool)
        return judging.judge(trial, self.targets, self.pool, found)


@pytest.fixture(scope="module")
def game(digits):
    return Game(digits, mean)


@pytest.fixture(scope="module")
def far(game):
    """Guesses that lead elsewhere: the records themselves are not the nearest."""
    return game.pool.images[:3]


def test_records_are_named_with_certainty(game, tmp_path):
    near = game.targets.images + 0.01
    trial = game.play(tmp_path, near)
    row = game.judged(trial)
    assert row["success"]["successes"] == row["exact"]["successes"] == 3
    assert (row["certified"], row["certified_wrong"]) == (3, 0)
    assert row["trainings"] == 3 * gallery._MOST
    assert trial.knows.endswith("a gallery that holds it")


def test_another_record_that_is_near_is_no_success(game, tmp_path):
    """Other targets stand in the gallery too, and are in nobody else's data."""
    twin = game.targets.images[:1] + np.float32(1e-4)
    some = game.gallery.images[:3].copy()
    some[0] = twin[0]
    trial = game.play(tmp_path, game.targets.images)
    row = game.judged(
        trial.__class__(**{**vars(trial), "images": some, "certified": None})
    )
    assert row["success"]["successes"] == row["exact"]["successes"] == 1
    wrong = game.targets.images[[1, 2, 0]]
    row = game.judged(trial.__class__(**{**vars(trial), "images": wrong}))
    assert row["success"]["successes"] == 0
    assert row["certified_wrong"] == 3


def test_weights_that_many_records_give_certify_nobody(digits, tmp_path):
    other = Game(digits, counted)
    trial = other.play(tmp_path, other.targets.images)
    assert trial.finished.all()
    assert not trial.certified.any()


def test_what_no_attack_has_a_guess_of_is_not_finished(game, tmp_path):
    two = game.targets.images[:2]
    nothing = np.full_like(game.targets.images, np.nan)
    trial = game.play(tmp_path, two, nothing)
    assert trial.finished.tolist() == [True, True, False]
    assert "no attack has a guess" in trial.why_not
    assert game.judged(trial)["exact"]["successes"] == 2
    row = game.judged(game.play(tmp_path, nothing))
    assert (row["finished"], row["success"]) == (0, None)


def test_as_many_are_tried_as_the_time_allows(game, far, tmp_path):
    trial = game.play(tmp_path, far, seconds_a_model=100 / 7)
    assert trial.why_not == "time for 2 of 64 records for each target"
    assert trial.trainings == 6
    assert game.judged(trial)["success"]["successes"] == 0
    trial = game.play(tmp_path, far, seconds_a_model=100 / 5)
    assert not trial.finished.any()


def test_without_a_gallery_it_does_not_apply(tmp_path):
    with pytest.raises(NotApplicableError, match="no gallery"):
        gallery.make(NoSettings(), Material(workdir=tmp_path, key=KEY))


def test_a_training_that_diverges_is_not_the_nearest(game, tmp_path, monkeypatch):
    thetas = Retraining.thetas

    def diverging(self, images, labels, *more, **named):
        found = np.array(thetas(self, images, labels, *more, **named))
        own = (images[:, 0, None] == game.targets.images[None]).all(axis=(2, 3, 4))
        found[np.flatnonzero(~own.any(axis=1))[:1]] = np.nan
        return found

    monkeypatch.setattr(Retraining, "thetas", diverging)
    row = game.judged(game.play(tmp_path, game.targets.images))
    assert row["exact"]["successes"] == 3


def test_the_order_takes_turns_and_holds_no_record_twice(game):
    guesses = [game.pool.images[[7]], game.targets.images[[1]]]
    attack = GalleryAttack(gallery=game.gallery, guesses=guesses)
    rows = attack._likeliest(0, 20)
    assert set(rows[:2]) == {7, len(game.pool) + 1}
    assert len(set(rows)) == len(rows) == 20
    assert len(attack._likeliest(1, 20)) == 0
    few = GalleryAttack(gallery=game.gallery.take(slice(0, 6)), guesses=guesses)
    assert len(few._likeliest(0, 20)) == 6


def sums(images, labels, key):
    """One row of numbers for each class that there is."""
    features = images.reshape(len(images), -1).astype(np.float64)
    return [features[labels == label].sum(axis=0) for label in np.unique(labels)]


def test_a_record_whose_model_has_another_size_is_not_the_one(rng):
    rows = rng.random((12, 4)).astype(np.float32).reshape(12, 1, 4, 1)

    def examples(where, labels):
        labels = np.asarray(labels, np.int32)
        return shadow.Examples(images=rows[where], labels=labels, num_classes=3)

    factory = shadow.Factory(
        algorithm=shadow.PythonFunction(train=sums, version="1"),
        fixed=examples(slice(0, 8), np.arange(8) % 2), key=KEY, role="released",
    )  # fmt: skip
    theta = factory.train(examples(slice(8, 9), [1]))[0]
    programs = Programs(factory.knowledge(), width=4, draws=1, key=KEY)
    training = Retraining(programs)
    apart = gallery._apart(training, examples([9, 8, 10], [2, 1, 0]), theta)
    assert np.isinf(apart[0])
    assert apart[1] == 0
    assert 0 < apart[2] < np.inf


def test_it_is_a_row_of_an_audit(digits):
    found = informed.audit(mean, digits.take(np.arange(400)), **QUICK)
    row = next(row for row in found.values["attacks"] if row["name"] == "gallery")
    assert row["finished"] == row["exact"]["successes"] == row["certified"] == 3
    said = words.first_lines(found.values)[0]
    assert 'The attack "gallery", whose adversary has a gallery' in said
    # What is named out of a gallery was not read: it ranks no record.
    assert not any("gallery" in r["certified_by"] for r in found.values["records"])
    with pytest.raises(GateFailedError, match="gallery succeeded for 3 of 3"):
        require(found.values, 0.9)
