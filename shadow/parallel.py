"""Run a training algorithm A many times: batched over devices, or in processes.

The factory, `informed.adversary_runs` and inversion make `Runs`, for many targets;
attacks compile programs of their own by `sharded`. Runs (rows) go in batches of fixed
width, filled with copies of a row that are dropped. So the compiled program, and with
it a model's bits, doesn't depend on the other models of a batch. On some processors
bits depend on a row's place in the batch. Where `placed`, its number decides the place.
"""

import contextlib
import dataclasses
import functools
import os
import signal
from collections.abc import Callable
from typing import Any

import jax
import joblib
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array
from joblib.externals.loky import reusable_executor

from shadow import checks, devices, on_cards
from shadow.training.algorithm import Algorithm, Draw

# Compiled programs that are kept, of a few algorithms; one serves both roles.
_KEPT = 4
_compiled: dict[tuple[int, str], tuple[Callable, Algorithm]] = {}
# Versions of training functions, by name, that worker processes may have imported.
_versions: dict[Any, Any] = {}
# An argument that each device has whole, and one divided by rows.
EVERYWHERE, BY_ROW = PartitionSpec(), PartitionSpec("rows")


class OtherSizeError(checks.FieldError):
    """Training gave more or fewer weights for one data set than for another."""


def mesh() -> Mesh:
    """Return the mesh of all local devices, which share the rows."""
    return Mesh(np.array(jax.local_devices()), ("rows",))


def sharded(
    function: Callable, ins: tuple, outs: Any, on: Mesh | None = None
) -> Callable:
    """Compile a function whose arguments are on all devices `on`, or divided by row."""
    return jax.jit(
        jax.shard_map(
            function,
            mesh=mesh() if on is None else on,
            in_specs=ins,
            out_specs=outs,
            check_vma=False,  # a scan's carry starts shared and ends one per row
        )
    )


def everywhere(values: Any) -> Any:
    """Copy a tree of arrays to all devices."""
    return jax.device_put(values, NamedSharding(mesh(), EVERYWHERE))


def program(
    algorithm: Algorithm, draw: Callable[[Any], Draw], on: Mesh | None = None
) -> Any:
    """Compile many runs of a batched A.

    Args:
      draw: number of a run -> its randomness, traced.
      on: devices that share the runs; None: all local ones.
    Returns: (the fixed set D_-, images (rows, targets, ...), labels (rows, targets),
      numbers of the runs (rows,)) -> weights theta (rows, params).
    """
    rows = (EVERYWHERE, BY_ROW, BY_ROW, BY_ROW)
    return sharded(functools.partial(_many, algorithm, draw), rows, BY_ROW, on)


def _many(
    algorithm: Algorithm,
    draw: Callable[[Any], Draw],
    fixed: tuple,
    images: Array,
    labels: Array,
    runs: Array,
) -> Array:
    """Run A on every row; traced."""

    def one(images: Array, labels: Array, run: Array) -> Array:
        return algorithm(fixed, images, labels, draw(run))  # type: ignore[return-value]

    return jax.vmap(one)(images, labels, runs)


def _shared(algorithm: Algorithm, draw: Callable[[Any], Draw]) -> Callable:
    """Compile `program` once for all draws of an A that differ only in their keys.

    Keys are arguments of the program; a shared initialisation stays a constant in it,
    which decides last digits.
    """
    traced, shape = jax.make_jaxpr(draw, return_shape=True)(np.int32(0))
    whole = jax.tree.structure(shape)
    floating = jax.numpy.floating
    still = [jax.dtypes.issubdtype(value.dtype, floating) for value in traced.consts]
    values = list(zip(traced.consts, still, strict=True))
    digests = [checks.digest(np.asarray(value)) for value, fixed in values if fixed]
    # A user's function may have changed since. A is traced differently for an
    # accelerator, also for one that is only planned for.
    victim = getattr(algorithm, "victim", None)
    now = checks.fingerprint([algorithm.configuration, victim and victim.fingerprint])
    text = f"{traced.jaxpr} {whole} {digests} {now} {devices.cache_bound()}"
    about = id(algorithm), text
    if about not in _compiled:

        def many(keys: list, *rows: Any) -> Array:
            left = iter(keys)
            known = [value if fixed else next(left) for value, fixed in values]

            def drawn(run: Array) -> Draw:
                again = jaxpr_as_fun(ClosedJaxpr(traced.jaxpr, known))
                return jax.tree.unflatten(whole, again(run))

            return _many(algorithm, drawn, *rows)

        ins = (EVERYWHERE, EVERYWHERE, BY_ROW, BY_ROW, BY_ROW)
        while len(_compiled) >= _KEPT:
            del _compiled[next(iter(_compiled))]
        # A is kept too, so that no other algorithm gets its id.
        _compiled[about] = sharded(many, ins, BY_ROW), algorithm
    keys = [value for value, fixed in values if not fixed]
    return functools.partial(_compiled[about][0], everywhere(keys))


def lower(
    made: Any, fixed_shape: tuple[int, ...], *, width: int, on: Mesh | None = None
) -> Any:
    """Lower a `program` for rows of one target; nothing is run.

    Args:
      made: what `program` returned for the same devices.
      fixed_shape: shape of the images of D_-.
      width: rows on all devices, which needn't be here.
    """

    def shape(shape: tuple[int, ...], dtype: Any, by: PartitionSpec) -> Any:
        sharding = None if on is None else NamedSharding(on, by)
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)

    count, *image_shape = fixed_shape
    return made.lower(
        (
            shape((count, *image_shape), np.float32, EVERYWHERE),
            shape((count,), np.int32, EVERYWHERE),
        ),
        shape((width, 1, *image_shape), np.float32, BY_ROW),
        shape((width, 1), np.int32, BY_ROW),
        shape((width,), np.int32, BY_ROW),
    )


# Options of XLA by which no kernels are timed; see `devices.DETERMINISTIC`.
UNTIMED = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}


def bytes_of(compiled: Any) -> int:
    """Return the memory of a compiled program on one device, by XLA's account."""
    memory = compiled.memory_analysis()
    return (
        memory.temp_size_in_bytes
        + memory.argument_size_in_bytes
        + memory.output_size_in_bytes
    )


class Runs:
    """Runs of A for many targets, with D_- shared.

    Args:
      algorithm: the training algorithm A.
      fixed: images and labels of D_-.
      draw: number of a run -> its randomness; traced where A is batched.
      width: rows at once on one device, or handed to processes at once.
      dtype: the type of the images' numbers.
    Attributes: `batched`, whether A runs on devices; `together`, rows at once on all.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        fixed: tuple[np.ndarray, np.ndarray],
        draw: Callable[[Any], Draw],
        *,
        width: int,
        dtype: Any = np.float32,
    ) -> None:
        self.algorithm, self._draw, self._dtype = algorithm, draw, dtype
        self._width = width
        # Length that theta has to have if A isn't batched; None: that of the first run.
        self.size: int | None = None
        self.batched = algorithm.capabilities.batched
        self.together = width * (jax.local_device_count() if self.batched else 1)
        if self.batched:
            self._program = _shared(algorithm, draw)
            images = np.asarray(fixed[0], dtype)
            self._fixed = everywhere((images, np.asarray(fixed[1], np.int32)))
        else:
            self._fixed = fixed
            if algorithm.capabilities.on_cards:
                devices.cpu_only()  # the worker processes need the cards

    def __call__(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        numbers: np.ndarray,
        on_rows: Callable[[int], None] = lambda count: None,
        *,
        placed: bool = False,
    ) -> np.ndarray:
        """Train every row; return its theta.

        Args:
          images, labels: (rows, targets, ...).
          numbers: (rows,), the number of each run.
          on_rows: called with the number of rows done after each batch.
          placed: give a run the same bits in any call: where they depend on a row's
            place in a batch (`devices.columns_alike`), its number decides the place.
        """
        if not self.batched:
            return self._one_by_one(images, labels, numbers, on_rows)
        in_turn = not placed or devices.columns_alike()
        places = np.arange(len(images)) if in_turn else numbers
        table = lanes(places, self._width)
        at_once = self.together // self._width
        thetas: dict[int, np.ndarray] = {}
        for start in range(0, len(table), at_once):
            rows = table[start : start + at_once].ravel()
            filled = np.flatnonzero(rows >= 0)
            padded = np.full(self.together, rows[filled[-1]])
            padded[filled] = rows[filled]
            values = self._program(
                self._fixed,
                np.asarray(images[padded], self._dtype),
                np.asarray(labels[padded], np.int32),
                np.asarray(numbers[padded], np.int32),
            )
            thetas.update(zip(rows[filled], np.asarray(values)[filled], strict=True))
            on_rows(len(filled))
        return np.stack([thetas[row] for row in range(len(images))])

    def _one_by_one(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        numbers: np.ndarray,
        on_rows: Callable[[int], None],
    ) -> np.ndarray:
        thetas = []
        for start in range(0, len(images), self.together):
            rows = range(start, min(start + self.together, len(images)))
            thetas.append(self._in_processes(images, labels, numbers, rows))
            on_rows(len(rows))
        return np.concatenate(thetas)

    def _in_processes(
        self, images: np.ndarray, labels: np.ndarray, numbers: np.ndarray, rows: range
    ) -> np.ndarray:
        # No JAX arrays: unpickling one opens a backend in every process, on a GPU the
        # whole card. The key of noise is only for a batched A.
        draws = {
            int(n): dataclasses.replace(self._draw(int(n)), noise_key=None)
            for n in np.unique(numbers[rows])
        }
        arguments = [
            (self._fixed, images[row], labels[row], draws[int(numbers[row])])
            for row in rows
        ]
        _restart_if_edited(self.algorithm)
        if self.algorithm.capabilities.on_cards:
            return self._stacked(on_cards.run(self.algorithm, arguments))
        jobs = (joblib.delayed(_on_cpu)(self.algorithm, *job) for job in arguments)
        # One thread each, also if there is only one job: a library's sums, and so
        # theta's last bits, depend on the number of its threads.
        with joblib.parallel_config("loky", inner_max_num_threads=1):
            trained = joblib.Parallel(n_jobs=processes(self.algorithm))(jobs)
        return self._stacked(trained)

    def _stacked(self, trained: list[np.ndarray]) -> np.ndarray:
        """Stack theta of all rows. Raises: OtherSizeError."""
        for theta in trained:
            self.size = self.size or len(theta)
            if len(theta) != self.size:
                raise OtherSizeError(
                    "train",
                    f"Expected {{}} to return {self.size} numbers for every data set,"
                    f" as it did at first, got {len(theta)}. A model whose size"
                    " depends on the classes that it finds has to be told all of them"
                    " (in scikit-learn: classes=).",
                )
        return np.stack(trained)


def lanes(places: np.ndarray, width: int) -> np.ndarray:
    """Assign rows to lanes of a width, the batches of a device, at fixed places.

    Args:
      places: (rows,); a row is put at its place modulo the width.
    Returns: (lanes, width), numbers of rows, -1 where there is none. Rows of
      neighbouring places share a lane; rows of the same place have different lanes.
    """
    lane_of: dict[tuple[int, int], list[int]] = {}
    seen: dict[int, int] = {}
    for row, place in enumerate(places.tolist()):
        seen[place] = seen.get(place, -1) + 1
        lane = lane_of.setdefault((place // width, seen[place]), [-1] * width)
        lane[place % width] = row
    return np.array(list(lane_of.values()))


def kill_workers() -> None:
    """Kill the processes that models are trained in, for `informed.cli.watchdog`."""
    executor = reusable_executor._executor
    workers = list(getattr(executor, "_processes", None) or ())
    for worker in [*workers, *on_cards.workers()]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def processes(algorithm: Algorithm) -> int:
    """Return how many processes train an A that isn't batched.

    At least two without cards, as joblib runs a single one in this process.
    """
    if algorithm.capabilities.on_cards:
        return max(1, len(devices.card_names()))
    return max(2, joblib.cpu_count())


def _restart_if_edited(algorithm: Algorithm) -> None:
    """Stop the processes if they may have imported an older file of the training."""
    about = algorithm.configuration.get("algorithm", {})
    name, now = about.get("function"), about.get("version")
    if _versions.setdefault(name, now) != now:
        _versions[name] = now
        reusable_executor.get_reusable_executor().shutdown(wait=True)
        on_cards.stop()


def _on_cpu(train: Callable, *arguments: Any) -> np.ndarray:
    """Train with JAX on the CPU, in a process that would otherwise take a whole GPU."""
    devices.cpu_only()
    return train(*arguments)
