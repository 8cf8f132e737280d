"""Every configuration in configs/ names every field."""

import dataclasses
import importlib.util
from pathlib import Path

import pytest

from informed.experiment.settings import Experiment
from tests.informed.command_line import ROOT

OTHERS = ("kkt", "landscape")  # commands with configurations of their own
CONFIGS = [
    path for path in sorted((ROOT / "configs").glob("*.py")) if path.stem not in OTHERS
]


def get_config(path: Path, *arguments):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_config(*arguments).to_dict()


@pytest.mark.parametrize(
    ("path", "size"),
    [
        *((path, ()) for path in CONFIGS),
        *(
            (ROOT / "configs" / name, (size,))
            for name in ("cifar10.py", "mnist.py")
            for size in ("cpu", "smoke", "paper")
        ),
    ],
    ids=lambda value: getattr(value, "stem", str(value)),
)
def test_every_configuration_names_every_field(path, size):
    """So that every field can be set on the command line, and none is misspelt."""
    values = get_config(path, *size)
    experiment = Experiment.from_mapping(values)

    def names(mapping, prefix=""):
        for name, value in mapping.items():
            yield prefix + name
            if isinstance(value, dict):
                yield from names(value, f"{prefix}{name}.")

    values.pop("attacks")  # by names of their own; refused where they don't fit
    fields = dataclasses.asdict(experiment)
    del fields["attacks"]
    assert set(names(values)) == set(names(fields))
