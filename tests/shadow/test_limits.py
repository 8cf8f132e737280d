"""Time limits: they interrupt whatever runs, and are taken back."""

import contextlib
import time

import jax
import numpy as np
import pytest

from shadow import limits


def test_a_limit_interrupts_and_is_taken_back():
    with pytest.raises(limits.OutOfTimeError), limits.seconds(0.05):
        time.sleep(5)
    with limits.seconds(0.05):
        pass
    time.sleep(0.08)


def test_where_no_time_is_left_nothing_begins():
    with pytest.raises(limits.OutOfTimeError, match="No time"), limits.seconds(0.0):
        pytest.fail("it was begun")


def test_a_limit_that_is_taken_for_another_error_comes_again():
    def reads_a_cache():
        with contextlib.suppress(BaseException):
            time.sleep(5)
        time.sleep(5)

    with pytest.raises(limits.OutOfTimeError), limits.seconds(0.05, again=0.05):
        reads_a_cache()
    time.sleep(0.12)


def sleeps(limit, then=0.0):
    with pytest.raises(limits.OutOfTimeError), limits.seconds(limit):
        time.sleep(5)
    time.sleep(then)


def test_limits_are_nested_and_the_outer_one_goes_on():
    with pytest.raises(limits.OutOfTimeError), limits.seconds(0.3):
        sleeps(0.05, then=5.0)


def test_no_handler_of_errors_goes_on_after_the_time_is_over():
    """As those of readers, and of scikit-learn's searches."""

    def stubborn():
        try:
            time.sleep(5)
        except Exception:
            return "took the end of its time for an error of its own"

    with pytest.raises(limits.OutOfTimeError), limits.seconds(0.1):
        stubborn()


def test_the_end_of_a_time_within_xla_is_the_end_of_a_time():
    """What XLA calls hands on an error of its own in the place of any other."""

    def slow(value):
        time.sleep(2)
        return value

    @jax.jit
    def called(value):
        return jax.pure_callback(slow, jax.ShapeDtypeStruct((), np.float32), value)

    with pytest.raises(limits.OutOfTimeError), limits.seconds(0.3):
        jax.block_until_ready(called(np.float32(1)))
    with pytest.raises(KeyError), limits.seconds(5.0):
        raise KeyError("its own")
