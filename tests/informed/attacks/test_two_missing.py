"""Two unknown records at once."""

import dataclasses

import jax
import numpy as np

import shadow
from informed.attacks.inversion import InversionConfig, TrainingInversion
from informed.attacks.two_missing import TwoMissing
from informed.threat import Knowledge
from shadow import publish
from tests.informed.developers import developer, parts_of

KEY = jax.random.key(0)


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
