"""`--config=FILE --config.field=value`, read: this is where a ConfigDict ends."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import flags
from ml_collections import config_flags

from informed.cli import shipped
from informed.runs.experiment import Experiment
from informed.runs.sweep import SweepConfig
from shadow import checks


def load_experiment(overrides: Sequence[str]) -> Experiment:
    """An experiment from `--config=FILE` and `--config.field=value` arguments.

    Raises: ValueError: no file, an unknown field (with the nearest name), or a value of
      the wrong type.
    """
    return Experiment.from_mapping(values(overrides)[0])


def load_sweep(overrides: Sequence[str]) -> tuple[SweepConfig, dict[str, Any]]:
    """A sweep, and the values of its base configuration, from the same arguments.

    Raises: ValueError: as `load_experiment`.
    """
    fields, file = values(overrides)
    config = checks.build(SweepConfig, fields, "sweep")
    return config, values([f"--config={file.parent / config.base}"])[0]


def values(overrides: Sequence[str]) -> tuple[dict[str, Any], Path]:
    """What a configuration file holds after the overrides, and the file."""
    if "--config" in overrides[:-1]:  # `--config FILE`, with a space
        i = overrides.index("--config")
        joined = f"--config={overrides[i + 1]}"
        return values([*overrides[:i], joined, *overrides[i + 2 :]])
    argv, file = ["informed"], None
    for argument in overrides:
        if not argument.startswith("--config"):
            raise ValueError(f"Unknown argument {argument!r}. See `informed --help`.")
        if argument.startswith("--config="):
            name, colon, size = argument.removeprefix("--config=").partition(":")
            file = shipped.resolve(name)
            argument = f"--config={file}{colon}{size}"
        argv.append(argument)
    found = flags.FlagValues()
    config_flags.DEFINE_config_file("config", flag_values=found, sys_argv=argv)
    try:
        left = found(argv)[1:]
    except AttributeError as error:  # what ml_collections raises for unknown fields
        hint = str(error).strip("'\"").replace("\\n", " ").replace("\n", " ")
        raise ValueError(f"Unknown configuration field: {hint}") from error
    except (flags.Error, OSError) as error:
        raise ValueError(str(error).strip().splitlines()[-1].strip()) from error
    except Exception as error:  # anything that the user's file may raise
        raise ValueError(
            f"{file} could not be read as a configuration:"
            f" {type(error).__name__}: {error}"
        ) from error
    if left:
        raise ValueError(f"Unknown argument {left[0]!r}. See `informed --help`.")
    if found.config is None or file is None:
        raise ValueError(
            "Expected --config=FILE, such as --config=configs/digits.py, or the name of"
            " one that is shipped, such as --config=digits."
        )
    return found.config.to_dict(), file
