"""What people type first doesn't wait for what it doesn't need."""

import subprocess
import sys

import pytest

HEAVY = ("jax", "matplotlib", "skimage", "orbax", "zarr", "tensorflow_datasets")
SCRIPT = """
import contextlib, io, sys
from informed.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main({arguments})
print(*(name for name in {heavy} if name in sys.modules))
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["bound", "--noise-multiplier=2", "--steps=100", "--kappa=0.01"],
        ["calibrate", "--gamma=0.1", "--steps=100", "--kappa=0.01"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_light_command_loads_nothing_heavy(arguments):
    script = SCRIPT.format(arguments=arguments, heavy=HEAVY)
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == []


def test_the_public_names_are_there():
    import informed

    for name in informed.__all__:
        assert callable(getattr(informed, name)), name
    assert set(informed.__all__) <= set(dir(informed))
    with pytest.raises(AttributeError, match="reconstruct_torch"):
        informed.reconstruct_torch  # noqa: B018
