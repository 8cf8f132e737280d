"""While a target is searched NumPy's products have one thread, and only then."""

import contextlib

import pytest
import threadpoolctl

from informed.attacks.inversion import training_inversion
from shadow import devices


def threads(of):
    return [
        each["num_threads"]
        for each in threadpoolctl.threadpool_info()
        if f"/{of}" in each["filepath"]
    ]


@pytest.fixture
def two():
    with threadpoolctl.threadpool_limits(2):
        if not (threads("numpy") and threads("scipy")):
            pytest.skip("NumPy and SciPy share a library here")
        yield


@pytest.mark.usefixtures("two")
def test_numpy_alone_has_one_thread():
    """JAX solves by SciPy's library, and theta's bits depend on its threads."""
    before = threads("scipy")
    with contextlib.suppress(KeyError), training_inversion._one_thread():
        assert threads("numpy") == [1]
        assert threads("scipy") == before
        raise KeyError
    assert threads("numpy") == [2]


@pytest.mark.usefixtures("two")
def test_on_an_accelerator_all_stay(monkeypatch):
    monkeypatch.setattr(devices, "cache_bound", lambda: False)
    with training_inversion._one_thread():
        assert threads("numpy") == [2]
