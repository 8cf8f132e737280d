"""Informed membership on digits: both strategies, and what defeats them."""

import jax
import numpy as np
import pytest

import informed
import shadow
from informed.attacks.inversion import Inversion, InversionConfig
from informed.attacks.membership_attacks import ReconstructionMembership
from informed.experiment.training_settings import TrainingConfig
from shadow import publish
from shadow.threat import Knowledge, Reconstruction

INVERSION = Inversion(config=InversionConfig(stages=(16,)))


def game(attack, digits, *, count, **fields):
    parts = shadow.split(
        digits, num_fixed=100, num_shadow=300, num_test=2 * count, seed=0
    )
    factory = shadow.Factory(
        algorithm=TrainingConfig(epochs=30, **fields).algorithm(
            shadow.build_victim(
                shadow.VictimConfig(widths=(8,)), image_shape=(8, 8, 1), num_classes=10
            )
        ),
        fixed=parts.fixed,
        key=jax.random.key(3),
    )
    return informed.membership_game(
        attack,
        factory,
        (parts.test.take(slice(0, count)), parts.test.take(slice(count, None))),
        factory.knowledge(public=parts.shadow),
        key=jax.random.key(1),
    )


@pytest.mark.parametrize(
    ("attack", "count"),
    [
        (informed.RetrainingMembership(), 12),
        (informed.ReconstructionMembership(attack=INVERSION), 3),
    ],
    ids=["retraining", "reconstruction"],
)
def test_the_member_is_named_every_time(attack, count, digits):
    assert game(attack, digits, count=count).all()


@pytest.mark.slow
def test_an_unknown_initialisation_hides_membership(digits):
    """40 coins: far from always right (Appendix A of the paper)."""
    right = game(
        informed.RetrainingMembership(), digits, count=40, initialisation="random"
    )
    assert right.mean() < 0.85


KEY = jax.random.key(0)


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
