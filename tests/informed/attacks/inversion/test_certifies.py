"""What the inversion may certify: nothing that rests on its prior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shadow
from informed.attacks.inversion import Inversion
from informed.attacks.inversion.problem import Certificate
from informed.attacks.inversion.training_inversion import _best
from shadow.data import Examples

KEY = jax.random.key(3)
_COLUMNS, _KNOWN = 40, 60


def _training(seen: np.ndarray):
    """Theta is a sum over records, of functions of the columns that are seen."""
    mix = np.random.default_rng(1).normal(size=(_COLUMNS, 3 * _COLUMNS))
    mix = jnp.asarray(mix * seen[:, None])

    def train(images, labels, key):
        del key
        rows = images.reshape(len(images), -1)
        classes = jax.nn.one_hot(labels, 2)
        return jnp.einsum("nc,nf->cf", classes, jnp.tanh(rows @ mix / 3))

    return train


@pytest.mark.parametrize("hidden", [True, False])
def test_a_column_that_theta_does_not_tell_is_not_certified(hidden, rng):
    """It is constant but for one known record, and the target: a heavy tail.

    The prior's variance of that column is so small that four times it, over all
    columns, would count as exact.
    """
    values = rng.uniform(size=(_KNOWN + 1, _COLUMNS))
    values[:, 0] = 0.0
    values[[0, _KNOWN], 0] = 0.015, 0.05
    labels = (np.arange(_KNOWN + 1) % 2).astype(np.int32)
    images = values.astype(np.float32)[:, None, :, None]
    seen = np.ones(_COLUMNS)
    seen[0] = 0.0 if hidden else 1.0
    factory = shadow.Factory(
        algorithm=shadow.JaxFunction(train=_training(seen), version="1"),
        fixed=Examples(images=images[:_KNOWN], labels=labels[:_KNOWN], num_classes=2),
        key=KEY,
        role="released",
    )
    target = Examples(images=images[_KNOWN:], labels=labels[_KNOWN:], num_classes=2)
    release = shadow.publish(factory.train(target))
    found = Inversion()(release, factory.knowledge(), key=KEY)
    apart = (found.images - target.images).ravel() ** 2
    assert apart[1:].max() < 1e-6
    assert found.certified.all() != hidden
    assert (apart[0] > 1e-3) == hidden


def test_a_candidate_of_which_nothing_is_known_is_passed_over():
    def candidate(residual):
        return Certificate(
            images=np.full((1, 2, 2, 1), residual, np.float32),
            labels=np.zeros(1, int),
            residual=residual,
            explained=False,
            certified=False,
            expected_mse=1.0,
            if_levels=False,
        )

    found = _best(iter(map(candidate, (np.nan, 1e-3, 1e-2))))
    assert found.residual == 1e-3
    assert np.isnan(_best(iter([candidate(np.nan)])).residual)
