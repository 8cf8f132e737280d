"""The registry names attacks without importing them."""

import dataclasses
import runpy
import subprocess
import sys

import pytest

from informed.attacks import registry
from informed.attacks.attack_row import Row
from informed.experiment.named import NamedAttack
from informed.experiment.reconn_settings import ReconnConfig

SCRIPT = """
import sys
from informed.attacks import registry
from informed.attacks.attack_row import Row
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


def test_a_changed_file_of_ones_own_attack_is_another_version(tmp_path, monkeypatch):
    """Its results aren't shown as those of the file before."""
    versions = set()
    for number in range(2):
        file = tmp_path / f"mine_{number}.py"
        file.write_text(f"def make(settings, material):\n    return {number}\n")
        make = runpy.run_path(str(file))["make"]
        row = Row(name="mine", about="", make=make, sees="view", knows=(), gives=())
        versions.add(row.version)
        learned = dataclasses.replace(row, config=ReconnConfig)
        monkeypatch.setitem(registry._ROWS, "mine", learned)
        assert NamedAttack.of("mine").revisions["mine"] == row.version
    assert len(versions) == 2
    assert registry.find("kernel").version == registry.find("kernel").revision


@pytest.mark.parametrize("field", ["knows", "gives"])
def test_knowledge_and_results_that_do_not_exist_are_refused(field):
    fields = {"knows": (), "gives": ("images",)} | {field: ("imagess",)}
    with pytest.raises(ValueError, match=field):
        Row(name="mine", about="", make="a:b", sees="view", **fields)
