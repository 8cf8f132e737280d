"""Packages give their names when asked for, and load no more than that needs."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import dp

ROOT = Path(dp.__file__).parents[1]
PACKAGES = ("dp", "shadow", "shadow.training", "shadow.victims", "reconn")
HEAVY = {
    "array_record",
    "haiku",
    "jax",
    "matplotlib",
    "orbax",
    "skimage",
    "tensorflow_datasets",
    "zarr",
}


@pytest.mark.parametrize(
    ("statements", "unwanted"),
    [
        ("import dp, shadow, reconn", HEAVY | {"scipy", "numpy"}),
        ("import shadow.checks, shadow.files, shadow.records", HEAVY | {"scipy"}),
        (
            "import dp; dp.Gaussian("
            "noise_multiplier=1.0, steps=1, relation='zero_out').epsilon(1e-5)",
            HEAVY | {"dp_accounting", "scipy.stats"},
        ),
        (
            "import dp; dp.rero_bound(dp.Gaussian(noise_multiplier=1.0, steps=1,"
            " relation='zero_out'), kappa=0.1)",
            HEAVY | {"dp_accounting", "scipy.stats", "scipy.optimize"},
        ),
    ],
)
def test_what_is_not_needed_is_not_imported(statements, unwanted):
    found = subprocess.run(
        [sys.executable, "-c", f"{statements}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        check=True,
        cwd=ROOT,
        text=True,
    )
    assert not unwanted & set(found.stdout.split())


@pytest.mark.parametrize("name", PACKAGES)
def test_names_for_type_checkers_are_those_at_run_time(name):
    package = importlib.import_module(name)
    block = next(
        node
        for node in ast.parse(Path(package.__file__).read_text()).body
        if isinstance(node, ast.If)
    )
    checked = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in block.body
        for alias in node.names
    }
    assert set(package.__all__) == set(checked)
    assert set(checked) <= set(dir(package))
    for public, (module, inner) in checked.items():
        wanted = getattr(importlib.import_module(module), inner)
        assert getattr(package, public) is wanted


def test_modules_are_found_and_unknown_names_are_refused():
    import shadow

    assert shadow.checks is importlib.import_module("shadow.checks")
    with pytest.raises(AttributeError, match="'shadow' has no attribute 'nothing'"):
        shadow.nothing  # noqa: B018
    with pytest.raises(ImportError, match="nothing"):
        from dp import nothing  # noqa: F401
