"""Which tests take long: `pytest -p tests.measured -n 0 -m "not slow"`.

Writes tests/long.txt: every test that takes more than `MOST` seconds of a core, with
its setup and what it starts, in a fresh clone, where no compiled program is kept. A few
long tests are most of the time: 315 of 3,100 took more than two thirds of it. They run
in `make test-all`.
"""

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LONG = Path(__file__).parent / "long.txt"
MOST = 2.5
_seconds: dict[str, float] = {}


def _now() -> float:
    """Seconds of cores that this process and those that it started have had."""
    each = [
        resource.getrusage(who)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return sum(used.ru_utime + used.ru_stime for used in each)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Time a test."""
    before = _now()
    result = yield
    _seconds[item.nodeid] = _now() - before
    return result


def pytest_sessionfinish() -> None:
    """Write the list, of tests that were run anew, of others as it was."""
    known = {*LONG.read_text().splitlines()} - _seconds.keys()
    known |= {name for name, seconds in _seconds.items() if seconds > MOST}
    LONG.write_text("".join(f"{name}\n" for name in sorted(known)))
