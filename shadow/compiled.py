"""Compiled programs kept on disk, so that the next workers need not compile them."""

import os
import stat
from pathlib import Path

import jax

from shadow import checks

# Tells Ray's workers, which check the folder for themselves.
VARIABLE = "INFORMED_ADVERSARY_COMPILATION_CACHE"


def keep_in(folder: str) -> None:
    """Have JAX keep compiled programs in a folder, and take them from there.

    What is compiled is code that runs, so the folder has to be this user's own: whoever
    can write to it can run anything as them.

    Raises: FieldError: it belongs to somebody else, or others can write to it.
    """
    place = Path(folder).absolute()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = place.stat()
    others = stat.S_IMODE(about.st_mode) & (stat.S_IWGRP | stat.S_IWOTH)
    if about.st_uid != os.getuid() or others:
        raise checks.FieldError(
            "compilation_cache",
            f"Expected {{}} to be a folder that only you can write to, got {folder}:"
            " compiled programs are code that runs. Take another, or chmod 700.",
        )
    os.environ[VARIABLE] = str(place)
    jax.config.update("jax_compilation_cache_dir", str(place))
