"""Configurations by name, in a checkout and in an installed wheel."""

import shutil
import tomllib
from pathlib import Path

import pytest

from informed.cli import configuration
from tests.informed.command_line import refused

ROOT = Path(__file__).parents[3]


def test_a_name_is_the_file_of_the_checkout():
    by_name = configuration.load_experiment(["--config=digits"])
    assert by_name == configuration.load_experiment(["--config=configs/digits.py"])


def test_a_name_takes_a_size_and_fields():
    found = configuration.load_experiment(
        ["--config=mnist:smoke", "--config.shadow.count=7"]
    )
    assert found.data.name == "mnist"
    assert found.shadow.count == 7
    assert found.data.num_test < 1000


def test_every_configuration_has_a_name():
    assert len(configuration.names()) == len(list((ROOT / "configs").glob("*.py")))
    assert {"digits", "mnist"} <= set(configuration.names())


def test_an_installation_reads_its_own_copy(tmp_path, monkeypatch):
    """As pyproject.toml puts it into a wheel; no checkout beside it."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]
    copied = build["build"]["targets"]["wheel"]["force-include"]
    site = tmp_path / "site-packages"
    for source, target in copied.items():
        shutil.copytree(ROOT / source, site / target)
    monkeypatch.setattr(configuration, "_PACKAGE", site / "informed")
    monkeypatch.chdir(tmp_path)
    assert (
        configuration.resolve("digits") == site / "informed" / "configs" / "digits.py"
    )
    assert configuration.load_experiment(["--config=digits"]).shadow.count == 1397


def test_a_file_comes_before_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").write_text("mine")
    assert configuration.resolve("digits") == Path("digits")


@pytest.mark.parametrize("name", ["digist", "configs/digist.py", "../configs/digits"])
def test_neither_file_nor_name_is_one_line_with_all_names(name, tmp_path, capsys):
    message = refused(capsys, "run", f"--config={name}", f"--workdir={tmp_path}")
    assert name in message
    assert "digits, kkt, landscape, mnist" in message
