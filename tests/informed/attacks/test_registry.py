"""The registry names attacks without importing them."""

import dataclasses
import subprocess
import sys

import pytest

from informed.attacks import registry

SCRIPT = """
import sys
from informed.attacks import registry
assert all(row.threat_model["about"] for row in registry.rows().values())
print(*sorted(name for name in sys.modules if name.startswith("informed.attacks.")))
print(*(name for name in ("sklearn", "reconn", "optax") if name in sys.modules))
"""


def test_listing_attacks_imports_none_of_them() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    ours, others = printed.stdout.split("\n")[:2]
    assert ours.split() == ["informed.attacks.attack_row", "informed.attacks.registry"]
    assert not others


@pytest.mark.parametrize("row", registry.rows().values(), ids=lambda row: row.name)
def test_what_a_row_names_is_there(row) -> None:
    assert dataclasses.is_dataclass(row.settings)
    assert callable(row._loaded("make"))
    assert callable(row._loaded("applies"))
