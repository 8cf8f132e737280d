"""Find configurations that come with the package: `--config=digits`.

In a checkout they lie in `configs/`; a wheel holds a copy of that folder beside this
package (`force-include` in pyproject.toml).
"""

from pathlib import Path

import informed

_PACKAGE = Path(informed.__file__).parent


def folder() -> Path | None:
    """Return where they lie; None in an installation that lost them."""
    places = (_PACKAGE / "configs", _PACKAGE.parent / "configs")
    return next((p for p in places if (p / "digits.py").is_file()), None)


def names() -> tuple[str, ...]:
    """Return what `--config` takes beside files, sorted: "cifar10", "digits", ..."""
    place = folder()
    return () if place is None else tuple(sorted(f.stem for f in place.glob("*.py")))


def resolve(name: str) -> Path:
    """Return the file of `--config=NAME`: NAME if it is a file, or what is bundled.

    Args:
      name: a path, or one of `names`.
    Raises: ValueError: neither.
    """
    if Path(name).is_file():
        return Path(name)
    place = folder()
    if place is not None and name in names():
        return place / f"{name}.py"
    raise ValueError(
        f"Expected --config=FILE or --config=NAME; there is no file {name!r}. Shipped"
        f" are {', '.join(names()) or 'none'}."
    )
