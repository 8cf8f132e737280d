"""Mistakes with optimisers that would train something else."""

import optax
import pytest

import reconn


def test_an_optimiser_that_was_not_called_is_refused():
    """It would be taken for a function of the number of steps."""
    with pytest.raises(ValueError, match=r"call optax\.adam with its learning rate"):
        reconn.Network(optimiser=optax.adam)
    reconn.Network(optimiser=optax.adam(1e-3))
    reconn.Network(optimiser=lambda total, epoch: optax.adam(1.0 / total))
