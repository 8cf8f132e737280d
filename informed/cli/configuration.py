"""Load a run's configuration from `--config=FILE[:SIZE] --config.field=value`.

`run_commands` and `shadow_command` call `load_experiment` or `values`, which run the
file's code. A file returns an ml_collections ConfigDict, because its fields can be
overridden.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags
from ml_collections import ConfigDict, config_flags

import informed
from informed.cli import options, registering
from shadow import checks

if TYPE_CHECKING:
    from informed.experiment.settings import Experiment

_PACKAGE = Path(informed.__file__).parent


def load_experiment(overrides: Sequence[str]) -> "Experiment":
    """Load an experiment from `--config=FILE` and `--config.field=value` arguments.

    Raises: ValueError: no file, an unknown field (with the nearest name), or a value of
      the wrong type.
    """
    from informed.experiment.settings import Experiment

    return Experiment.from_mapping(values(overrides))


def values(overrides: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a configuration file, after overrides, as nested dicts."""
    argv, file = ["informed"], None
    for argument in overrides:
        if not argument.startswith("--config"):
            raise ValueError(f"Unknown argument {argument!r}. See `informed --help`.")
        if argument.startswith("--config="):
            name, colon, size = argument.removeprefix("--config=").partition(":")
            file = resolve(name)
            registering.see_beside(file)
            argument = f"--config={file}{colon}{size}"
        argv.append(argument)
    try:
        parsed = _parsed(argv, file)
    except ValueError:
        if file is not None:  # find out whether the file or an override is wrong
            files = [argument for argument in argv if argument.startswith("--config=")]
            _check(_parsed(["informed", *files], file).config, argv[1:])
        raise
    if parsed.config is None or file is None:
        raise ValueError(
            "Expected --config=FILE, such as --config=configs/digits.py, or the name of"
            " one that is shipped, such as --config=digits."
        )
    if not isinstance(parsed.config, ConfigDict):
        raise ValueError(
            f"Expected get_config() of {file} to return a ConfigDict,"
            f" got {type(parsed.config).__name__}."
        )
    return parsed.config.to_dict()


def _parsed(argv: Sequence[str], file: Path | None) -> flags.FlagValues:
    """Return the parsed flags with the configuration; raises as `load_experiment`."""
    parsed = flags.FlagValues()
    config_flags.DEFINE_config_file("config", flag_values=parsed, sys_argv=list(argv))
    try:
        parsed(argv)
        return parsed
    except AttributeError as error:  # what ml_collections raises for unknown fields
        hint = str(error).strip("'\"").replace("\\n", " ").replace("\n", " ")
        raise ValueError(f"Unknown configuration field: {hint}") from error
    except (Exception, SystemExit) as error:  # anything the user's file may raise
        group = re.search(r"Could not override field '(\w+)'", str(error))
        line = f"{file} could not be read as a configuration: {checks.named(error)}"
        if group:
            line = (
                f"{file} sets config.{group[1]}, a group of fields, to a single value;"
                f" set one of its fields{_example(group[1])}."
            )
        elif isinstance(error, flags.Error | OSError):
            line = str(error).strip().splitlines()[-1].strip().removeprefix("flag ")
            for kind, number in (("int", "a whole number"), ("float", "a number")):
                line = re.sub(
                    rf": (invalid|could not) .*\b{kind}\b.*:",
                    f": expected {number}, got",
                    line,
                )
        raise ValueError(line) from error


def _check(config: Any, arguments: Sequence[str]) -> None:
    """Refuse overrides of fields that the configuration lacks, and of groups."""
    for argument in arguments:
        path, equals, value = argument.removeprefix("--config.").partition("=")
        # ml_collections itself checks elements of tuples, such as x[0].
        if not argument.startswith("--config.") or not equals or "[" in path:
            continue
        node, place = config, "config"
        for name in path.split("."):
            if not isinstance(node, ConfigDict):
                raise ValueError(
                    f"--config.{path}: {place} is {node!r} and has no fields."
                )
            if name not in node:
                raise ValueError(
                    f"Unknown configuration field: {place} has no {name!r}."
                    f"{checks.nearest(name, list(node))}"
                )
            node, place = node[name], f"{place}.{name}"
        else:
            if isinstance(node, ConfigDict) and len(node):
                raise ValueError(
                    f"--config.{path}={value}: {place} is a group of fields; set one of"
                    f" them{_example(path)}, of {', '.join(node)}."
                )


def _example(group: str) -> str:
    """Return an example for a group that people mistake for one field."""
    return ", such as config.data.name" if group == "data" else ""


def folder() -> Path | None:
    """Return the folder of the bundled configurations; None: there is none."""
    places = (_PACKAGE / "configs", _PACKAGE.parent / "configs")
    return next((p for p in places if (p / "digits.py").is_file()), None)


def names() -> tuple[str, ...]:
    """Return the sorted names of the bundled configurations, such as "digits"."""
    place = folder()
    return () if place is None else tuple(sorted(f.stem for f in place.glob("*.py")))


def resolve(name: str) -> Path:
    """Return the file of `--config=NAME`: a path, or a bundled configuration.

    Args:
      name: a path, or one of `names`.
    Raises: ValueError: `name` is neither.
    """
    if Path(name).is_file():
        return Path(name)
    place = folder()
    if place is not None and name in names():
        return place / f"{name}.py"
    raise ValueError(
        f"Expected --config=FILE or --config=NAME; there is no file {name!r}. Shipped"
        f" are {', '.join(names()) or 'none'}.{options.did_you_mean(name, names())}"
    )
