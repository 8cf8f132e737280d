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


def _training(sees):
    """Theta is a sum over the records of each class, of functions of `sees(rows)`."""
    mix = jnp.asarray(np.random.default_rng(1).normal(size=(_COLUMNS, 3 * _COLUMNS)))

    def train(images, labels, key):
        del key
        rows = images.reshape(len(images), -1)
        return jnp.einsum("nc,nf->cf", jax.nn.one_hot(labels, 2), sees(rows, mix))

    return train


def _invert(train, values):
    """Invert the training on the last row, and return the truth and the answer."""
    labels = (np.arange(_KNOWN + 1) % 2).astype(np.int32)
    images = values.astype(np.float32)[:, None, :, None]
    factory = shadow.Factory(
        algorithm=shadow.JaxFunction(train=train, version="1"),
        fixed=Examples(images=images[:_KNOWN], labels=labels[:_KNOWN], num_classes=2),
        key=KEY,
        role="released",
    )
    target = Examples(images=images[_KNOWN:], labels=labels[_KNOWN:], num_classes=2)
    release = shadow.publish(factory.train(target))
    return target.images, Inversion()(release, factory.knowledge(), key=KEY)


def _mixed(rows, mix):
    return jnp.tanh(rows @ mix / 3)


def _curved(images, labels, key):
    """Sums of each class and a function of them, as naive Bayes has logarithms."""
    sums = _training(lambda rows, mix: rows)(images, labels, key)
    return jnp.concatenate([sums, jnp.sin(sums)], axis=1)


def _blind(rows, mix):
    """The training doesn't look at the first column."""
    return _mixed(rows.at[:, 0].set(0), mix)


@pytest.mark.parametrize("hidden", [True, False])
def test_a_column_that_theta_does_not_tell_is_not_certified(hidden, rng):
    """It is constant but for one known record, and the target: a heavy tail.

    The prior's variance of that column is so small that four times it, over all
    columns, would count as exact.
    """
    values = rng.uniform(size=(_KNOWN + 1, _COLUMNS))
    values[:, 0] = 0.0
    values[[0, _KNOWN], 0] = 0.015, 0.05
    truth, answer = _invert(_training(_blind if hidden else _mixed), values)
    apart = (answer.images - truth).ravel() ** 2
    assert apart[1:].max() < 1e-6
    assert answer.certified.all() != hidden
    assert (apart[0] > 1e-3) == hidden


@pytest.mark.parametrize(
    ("sees", "first"),
    [
        # All known records have 0 there.
        (_blind, 0.9),
        # The search ends at 0.1, where theta moves upwards alone.
        (lambda rows, mix: _mixed(jnp.clip(rows, 0.1, 0.9), mix), 0.03),
        (lambda rows, mix: _mixed(rows, mix) + _mixed(rows[:, ::-1], mix), 0.5),
        # Sums have no equation to spare: other known records have a solution too.
        (lambda rows, mix: rows, 0.5),
        # Nor have combinations and copies of sums, though they are more numbers.
        (lambda rows, mix: rows @ mix, 0.5),
        (lambda rows, mix: jnp.tile(jnp.clip(rows, 0, 1), (1, 2)), 0.5),
        (None, 0.5),
        # A wrong value in the columns of sums would be made up for.
        (lambda x, mix: jnp.hstack([x[:, :3], _mixed(x[:, 3:], mix[3:])]), 0.5),
        (lambda x, mix: sum(_mixed(jnp.roll(x, i, 1), mix) for i in range(40)), 0.5),
        (lambda x, mix: _mixed(x.at[:, 0].set(jnp.abs(x[:, 0] - 0.5)), mix), 0.3),
    ],
    ids=[
        "unseen",
        "clipped",
        "mirrored",
        "sums",
        "combinations",
        "copies",
        "curved",
        "beside sums",
        "shifted",
        "folded",
    ],
)
def test_what_curvature_does_not_show_is_not_certified(sees, first, rng):
    values = rng.uniform(0.2, 0.8, size=(_KNOWN + 1, _COLUMNS))
    values[:2, 1] = 0.2, 0.8  # the fold is at the middle of the known range
    values[:, 0] *= sees is not _blind
    values[_KNOWN, 0] = first
    train = _curved if sees is None else _training(sees)
    _, answer = _invert(train, values)
    assert not answer.certified.any()


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
