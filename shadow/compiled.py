"""Keep JAX's compiled programs on disk, so that training starts faster.

`informed shadow` and Ray's workers call `keep_in`. It makes the folder, sets an
environment variable for workers, and configures JAX for the rest of the process.
"""

import os
import stat
from pathlib import Path

import jax

from shadow import checks

# The variable that tells Ray's workers the folder; they check it too.
VARIABLE = "INFORMED_ADVERSARY_COMPILATION_CACHE"


def keep_in(folder: str) -> None:
    """Have JAX keep compiled programs in a folder, and load them from there.

    Compiled programs are code, so the folder has to be this user's: anyone who can
    write to it can run code as this user.

    Raises: FieldError: it belongs to another user, or others can write to it.
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
