"""Configurations that are shipped with the package: `--config=digits`.

In a checkout they lie in `configs/`; a wheel holds a copy of that folder beside this
package (`force-include` in pyproject.toml).
"""

from pathlib import Path

import informed

_PACKAGE = Path(informed.__file__).parent


def folder() -> Path | None:
    """Where they lie; None in an installation that lost them."""
    for found in (_PACKAGE / "configs", _PACKAGE.parent / "configs"):
        if (found / "digits.py").is_file():
            return found
    return None


def names() -> tuple[str, ...]:
    """What `--config` takes beside files, sorted: "cifar10", "digits", ..."""
    found = folder()
    if found is None:
        return ()
    return tuple(sorted(file.stem for file in found.glob("*.py")))


def resolve(name: str) -> Path:
    """The file of `--config=NAME`: NAME itself if it is a file, or what is shipped.

    Args:
      name: a path, or one of `names`.
    Raises: ValueError: neither.
    """
    if Path(name).is_file():
        return Path(name)
    found = folder()
    if found is not None and name in names():
        return found / f"{name}.py"
    raise ValueError(
        f"Expected --config=FILE or --config=NAME; there is no file {name!r}. Shipped"
        f" are {', '.join(names()) or 'none'}."
    )
