"""No float32 product of ours below the highest precision: on a GPU it would be TF32.

Every test runs with `watch`: matrix products and convolutions are looked at when they
are first traced (what JAX has traced before, it doesn't trace again). The code that
asks for one is the nearest frame of this repository, of a derivative that of the
product it is derived from; networks and gradients have the precision of whoever calls
them. Products of a user's function belong to the user; the RecoNN and its losses may be
rounded.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jax import lax
from jax._src import source_info_util
from jax._src.lax import convolution
from jax._src.lax import lax as internal

ROOT = Path(__file__).parent.parent
EXACT = ("dp/", "shadow/", "informed/attacks/", "uninformed/")
CALLERS = (
    *("shadow/victims/", "shadow/training/grouped_gradients.py"),
    *("dp/gradient.py", "uninformed/homogeneous.py"),
)
found: list[str] = []


def watch() -> None:
    """Look at every product from now on; `found` takes what is wrong."""
    for primitive in (internal.dot_general_p, convolution.conv_general_dilated_p):
        primitive.bind = _looking(primitive.name, primitive.bind)


def _looking(name: str, bind: Callable) -> Callable:
    @functools.wraps(bind)
    def looking(*operands: Any, **params: Any) -> Any:
        if not _highest(params.get("precision")) and all(map(_float32, operands)):
            asker = _asker()
            if asker.startswith(EXACT):
                found.append(f"{asker}: {name} at precision {params['precision']}")
        return bind(*operands, **params)

    return looking


def _highest(precision: Any) -> bool:
    both = precision if isinstance(precision, tuple) else (precision,)
    return all(each == lax.Precision.HIGHEST for each in both)


def _float32(operand: Any) -> bool:
    return np.dtype(operand.dtype) == np.float32


def _asker() -> str:
    """The nearest frame of this repository, as "shadow/training/gram_form.py:90"."""
    for frame in source_info_util.user_frames(source_info_util.current().traceback):
        file = Path(frame.file_name)
        if not file.is_relative_to(ROOT) or ".venv" in file.parts:
            continue
        name = file.relative_to(ROOT).as_posix()
        if file != Path(__file__) and not name.startswith(CALLERS):
            return f"{name}:{frame.start_line}"
    return ""
