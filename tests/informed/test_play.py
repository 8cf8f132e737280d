"""What is kept of an attack that doesn't come to its end."""

import dataclasses

import jax
import numpy as np
import pytest

import informed
import shadow
from informed.attacks import registry
from informed.attacks.attack_row import Material, NotApplicableError
from informed.play import play
from shadow.threat import Knowledge

KEY = jax.random.key(0)


class Stumbling:
    """Finds two targets exactly, by a look at the answer, and raises at the third."""

    def __init__(self, error, after):
        self.error, self.after = error, after

    def each(self, release, knowledge, *, key):
        for theta in release.weights[: self.after]:
            yield informed.Reconstruction(
                images=theta.reshape(1, *knowledge.fixed.image_shape),
                certified=np.ones(1, bool),
            )
        raise self.error


@pytest.fixture
def played(split, tmp_path):
    def play_with(error, after=2, **named):
        row = dataclasses.replace(
            registry.find("inversion"),
            make=lambda config, material: Stumbling(error, after),
        )
        targets = split.test.images[:4]
        return play(
            row,
            Material(workdir=tmp_path, key=KEY),
            shadow.publish(targets.reshape(4, -1)),
            Knowledge(fixed=split.fixed),
            key=KEY,
            **named,
        )

    return play_with


def test_an_error_at_one_target_leaves_what_was_read(played, split):
    trial = played(
        np.linalg.LinAlgError("Eigenvalues did not converge"), stumbling=True
    )
    np.testing.assert_array_equal(trial.images[:2], split.test.images[:2])
    assert np.isnan(trial.images[2]).all()
    assert trial.certified.tolist() == [True, True, False]
    assert trial.finished.tolist() == [True, True, False]
    assert trial.planned == 4
    assert trial.why_not == (
        "it stopped with LinAlgError: Eigenvalues did not converge at target 3 of 4;"
        " the others weren't tried"
    )


def test_elsewhere_an_error_is_an_error(played):
    with pytest.raises(KeyError, match="broken"):
        played(KeyError("broken"))


def test_an_attack_that_is_not_for_such_models_was_not_tried(played):
    trial = played(NotApplicableError("no dimension is left"), after=0)
    assert (trial.images, trial.applies) == (None, False)
    assert trial.why_not == "no dimension is left"
    later = played(NotApplicableError("no dimension is left"))
    assert later.applies
    assert later.finished.tolist() == [True, True, False]
