"""Checkpoints for long JAX loops: scan over steps in pieces, and save after each.

A training of a million epochs, or a run of the KKT attack, is a `lax.scan` over its
steps. An interrupted loop continues after the last piece, with the same result.
`max_margin` and `kkt.descent` call `scan`, at a `Place` that `kkt.experiment` chooses.
"""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from shadow import bars, files
from shadow.records import Record, require_same

# Number of pieces: an interruption loses at most 2 %, and writing takes little time.
_PIECES = 50
_ABOUT, _DONE = "about", "done"  # arrays of the file: the record, the steps made


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """The .npz file of checkpoints, which stays when the loop is done, until `clear`.

    A file with another `record`, of all that determines the loop, is refused; messages
    name it `what`. With `progress`, a bar shows the finished steps and the time left.
    """

    file: Path
    record: Record
    what: str
    progress: bool = True

    def named(self, name: str) -> "Place":
        """Return the place beside this one for another phase of the same work."""
        file = self.file.with_name(f"{self.file.stem}-{name}.npz")
        return dataclasses.replace(self, file=file)

    def clear(self) -> None:
        """Remove the checkpoints of all phases, once the result is saved elsewhere."""
        for file in self.file.parent.glob(f"{self.file.stem}*.npz"):
            file.unlink()


def scan(
    step: Callable[[Any, Array], Any],
    carry: Any,
    steps: int,
    place: Place | None = None,
    tick: Callable[[int], object] | None = None,
) -> Any:
    """Return the last carry = step(carry, number) of number in 0 .. steps - 1.

    Args:
      step: one step; may be traced.
      carry: a pytree of arrays.
      place: where pieces are kept; None: nowhere. The pieces are the same, since one
        longer loop is another program, whose rounding may differ.
      tick: called with the number of steps of each piece as it is done.
    Raises: ConfigurationMismatchError, VersionMismatchError: the place holds the pieces
      of other work.
    """

    def some(carry: Any, first: Array, count: int) -> Any:
        numbers = first + jnp.arange(count)
        return jax.lax.scan(lambda c, n: (step(c, n), None), carry, numbers)[0]

    compiled, done = jax.jit(some, static_argnums=2), 0
    if place is not None and place.file.exists():
        arrays = files.read_arrays(place.file)
        record = Record.read(json.loads(str(arrays.pop(_ABOUT))))
        require_same(record, place.record, place.what)
        done = int(arrays.pop(_DONE))
        leaves, tree = jax.tree.flatten(carry)
        kept = [jnp.asarray(arrays[str(i)], old.dtype) for i, old in enumerate(leaves)]
        carry = jax.tree.unflatten(tree, kept)
    longest = max(1, -(-steps // _PIECES))
    # The bar is named after the file; without a file there is no bar.
    name = "" if place is None else place.file.stem.replace(".part", "")
    show = place is not None and place.progress
    with bars.bar(
        total=steps, initial=done, desc=name, unit=" steps", show=show
    ) as bar:
        while done < steps:
            count = min(longest, steps - done)
            carry = compiled(carry, jnp.asarray(done), count)
            done += count
            if place is not None:
                _keep(place, carry, done)
            bar.update(count)
            if tick is not None:
                jax.block_until_ready(carry)
                tick(count)
    return carry


def _keep(place: Place, carry: Any, done: int) -> None:
    leaves = {str(i): np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(carry))}
    about = np.array(json.dumps(place.record.values))
    files.write_arrays(place.file, **leaves, **{_DONE: np.array(done), _ABOUT: about})
