"""What runs wrote before `config.attacks` held all attacks: read, or refused by name.

`config.reconn` and `config.inversion` had stages and files of their own, and results of
the reconstructor stood beside the others.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shadow import files
from shadow.records import ConfigurationMismatchError

# The attack by name -> its file and its stage, then.
_FILES = {
    "reconn": ("reconstructions.npz", "attack"),
    "inversion": ("inversions.npz", "invert"),
}


def is_former(workdir: Path) -> bool:
    """Whether the folder holds a run of then."""
    return (workdir / "reconstructions.npz").is_file()


def refuse(workdir: Path) -> None:
    """Raise ConfigurationMismatchError where a run of then would be gone on with."""
    if is_former(workdir):
        raise ConfigurationMismatchError(
            f"{workdir} holds a run of an earlier version, whose config.reconn and"
            " config.inversion are config.attacks.reconn and config.attacks.inversion"
            " now. `informed report` still reads it."
        )


def results(values: Mapping[str, Any]) -> dict[str, Any]:
    """Contents of results.json as they are written now.

    Args:
      values: of then, or of now, which are given back.
    """
    if "reconn_mse" not in values:
        return dict(values)
    configuration = dict(values["configuration"])
    reconn = {"targets": None} | configuration.pop("reconn")
    kind = "kernel" if reconn["kind"] == "kernel" else "reconn"
    inversion = configuration.pop("inversion")
    attacks = {
        "reconn": {"type": kind} | reconn,
        "inversion": {
            "type": "inversion",
            "targets": inversion["targets"],
            **inversion["attack"],
        },
        **configuration.get("attacks", {}),
    }
    found = {name: dict(each) for name, each in values["attacks"].items()}
    for field in ("mse_standard_error", "mae", "lpips", "kl"):
        found["reconn"][field] = values[f"reconn_{field}"]
    rate = values["closer_than_oracle"]
    for name, each in found.items():
        share = each["closer_than_oracle"]
        each["closer_than_oracle"] = rate if name == "reconn" else {"rate": share}
        each["shadow_models"] = values["shadow_models"]
    configuration["attacks"] = attacks
    return {**values, "attacks": found, "configuration": configuration}


def place(workdir: Path, name: str) -> tuple[Path, str]:
    """The file of an attack's guesses, and its stage."""
    if is_former(workdir) and name in _FILES:
        file, stage = _FILES[name]
        return workdir / file, stage
    return workdir / "attacks" / f"{name}.npz", f"attack-{name}"


def guesses(workdir: Path, name: str) -> dict[str, np.ndarray]:
    """What an attack of a run returned, array by array."""
    return files.read_arrays(place(workdir, name)[0])


def read(file: Path) -> dict[str, Any]:
    """A results.json, of then or now."""
    return results(json.loads(file.read_text()))
