"""Train shadow models on a Ray cluster, for sets that take one machine too long.

`Store.fill(launcher=shadow.Ray())` and `informed shadow --launcher=ray` call `Ray`. It
needs the extra "cluster". There is one task per block of the store. Tasks and their
answers hold numbers and names, no arrays: workers write weights to the store. The
driver, which is the calling process, resubmits blocks whose worker or node died. A
block that raises three times or is lost ten times is set aside and named at the end;
three blocks set aside end the run. When half of the missing blocks are made, a block
that takes three times the median is submitted a second time, if a worker is free; the
first commit stays. Ray's own retries are off (`max_retries=0`): it would retry forever
if workers run out of memory, without saying for which block.
"""

import collections
import contextlib
import dataclasses
import functools
import importlib
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax

from shadow import bars, checks, compiled, devices, reserved
from shadow.launchers.launch import Prepare
from shadow.reserved import NoAcceleratorError
from shadow.store import Store

_RAISED, _LOST = 3, 10  # errors or losses of a block, after which it is set aside
_SET_ASIDE = 3  # blocks set aside, after which the launcher gives up
_SLOW = 3.0  # medians of a block's time
FORWARDED = ("TFDS_DATA_DIR",)  # environment variables for workers, by default
# Always forwarded: they decide bits, the compilation cache and devices.
_ALWAYS = (
    *("XLA_FLAGS", "JAX_PLATFORMS", compiled.VARIABLE),
    *("JAX_ENABLE_X64", "JAX_THREEFRY_PARTITIONABLE"),
)
_CARDS = "SHADOW_ON_CARDS"  # variable: A trains on cards in processes of its own
_PART = 0.9  # of a card's memory for the workers that share it; CUDA needs the rest
_LISTEN = 1.0  # seconds without news, after which stragglers are looked for
_SEEN = 90.0  # seconds until a shared folder shows the files of all nodes
_prepared: dict[str, list[Store]] = {}  # stores of this worker process, by run


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ray:
    """A launcher of Ray tasks; see the module's docstring.

    It keeps the calling process from opening an accelerator, if none is open yet.

    Attributes:
      address: the address of a cluster, "auto" for the one that this machine belongs
        to; None: Ray is started on this machine.
      cpus: cores per task.
      gpus: accelerators per task; None: one where the cluster has some, else none. A
        part of one, such as 0.25, puts several workers on one card, each with its part
        of the memory.
      memory: bytes per task that Ray reserves, so that a node takes no more tasks than
        fit.
      forward: names of environment variables that workers are given, beside those of
        JAX. They can be seen in Ray's dashboard; credentials are better put on the
        nodes.
    Raises: ValueError: numbers out of range.
    """

    address: str | None = None
    cpus: int = 1
    gpus: float | None = None
    memory: int = 2 << 30
    forward: tuple[str, ...] = FORWARDED

    def __post_init__(self) -> None:
        checks.at_least("cpus", self.cpus, 1)
        checks.at_least("gpus", self.gpus or 0, 0)
        checks.at_least("memory", self.memory, 1)

    def __call__(
        self,
        prepare: Prepare,
        *,
        progress: bool = True,
        on_block: Callable[[], None] = lambda: None,
    ) -> None:
        """See `Launch`.

        Raises: ImportError: Ray isn't installed. NoAcceleratorError: tasks are given
          GPUs, and their JAX has none. RuntimeError: blocks that can't be made.
        """
        # Ray's messages on lost workers go to stderr; stdout is for results.
        with contextlib.redirect_stdout(sys.stderr):
            self._run(module(), prepare, progress, on_block)

    def _run(
        self, ray: Any, prepare: Prepare, progress: bool, on_block: Callable[[], None]
    ) -> None:
        # Workers on this machine need its accelerators; the driver would hold one.
        devices.cpu_only()
        if devices.has_nvidia_driver():
            print(
                "This process's JAX stays on the CPU from now on, so that Ray's workers"
                " have the GPUs. One that it has opened already stays open, unless the"
                " program begins with jax.config.update('jax_platforms', 'cpu').",
                file=sys.stderr,
            )
        stores = prepare()  # so stores exist before the first worker opens them
        began = not ray.is_initialized()
        if began:
            self._connect(ray)
        try:
            gpus = self.gpus
            if gpus is None:
                gpus = float(ray.cluster_resources().get("GPU", 0) > 0)
            run = f"{os.getpid()}-{time.time_ns()}"
            cards = any(s.factory.algorithm.capabilities.on_cards for s in stores)
            task = _task(ray, self, gpus, cards=cards)
            prepare_once = ray.put(prepare)  # once per node, not once per task
            if not self._slots(ray, gpus)():
                print(
                    f"No node has {self.cpus} cores, {gpus:g} GPUs and"
                    f" {self.memory / 2**30:.1f} GiB for a task yet; waiting for one.",
                    file=sys.stderr,
                )
            for number, store in enumerate(stores):
                submit = functools.partial(task.remote, run, [prepare_once], number)
                _Queue(ray, store, submit, self._slots(ray, gpus)).run(
                    progress=progress, on_block=on_block
                )
        finally:
            if began:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        """Connect to a cluster, or to one started on this machine."""
        with warnings.catch_warnings():
            # Ray starts its processes by fork and an immediate exec.
            warnings.filterwarnings("ignore", r"os.fork\(\) was called", RuntimeWarning)
            ray.init(
                address=self.address,
                log_to_driver=False,
                logging_level="ERROR",
                include_dashboard=False if self.address is None else None,
            )

    def _slots(self, ray: Any, gpus: float) -> Callable[[], int]:
        """Return a function that says how many tasks the cluster can run at once."""

        needed = {"CPU": self.cpus, "memory": self.memory, "GPU": gpus}

        def slots() -> int:
            there = ray.cluster_resources()
            return int(min(there.get(name, 0) // n for name, n in needed.items() if n))

        return slots


class _Queue:
    """The blocks of one store: waiting, running, done or set aside."""

    def __init__(
        self,
        ray: Any,
        store: Store,
        submit: Callable[[int], Any],
        slots: Callable[[], int],
    ) -> None:
        self._ray, self._store, self._submit, self._slots = ray, store, submit, slots
        self._waiting = collections.deque(store.missing())
        self._flying: dict[Any, tuple[int, float]] = {}  # task -> block, since
        self._left = set(self._waiting)
        self._raised: collections.Counter[int] = collections.Counter()
        self._lost: collections.Counter[int] = collections.Counter()
        self._aside: dict[int, str] = {}
        self._took: list[float] = []
        self._nodes: collections.Counter[str] = collections.Counter()

    def run(self, *, progress: bool, on_block: Callable[[], None]) -> None:
        """Run until all blocks are done or set aside."""
        store, role = self._store, self._store.factory.role
        rows = {block: len(range(*store.block_range(block))) for block in self._left}
        started = time.monotonic()
        with bars.bar(
            total=len(store),
            initial=len(store) - sum(rows.values()),
            desc=f"{role} models of the cluster",
            unit=" models",
            show=progress,
        ) as bar:
            while self._left:
                self._hand_out()
                landed, _ = self._ray.wait(
                    list(self._flying),
                    num_returns=1,
                    timeout=_LISTEN,
                    fetch_local=False,
                )
                for task in landed:
                    block, since = self._flying.pop(task)
                    done = self._outcome(task, block)
                    if done is not None and block in self._left:
                        self._left.discard(block)
                        self._took.append(time.monotonic() - since)
                        self._nodes[done] += rows[block]
                        bar.update(rows[block])
                        on_block()
            for task in self._flying:  # their blocks are done by other tasks
                self._ray.cancel(task, force=True)
            seconds = time.monotonic() - started
            if self._nodes and not bar.disable:
                nodes = sorted(self._nodes.items())
                shares = (f"{node} {models / seconds:.2f}" for node, models in nodes)
                bar.write(f"models/s per node: {', '.join(shares)}")
        if self._aside:
            raise self._error()
        until = time.monotonic() + _SEEN
        while (missing := store.missing()) and time.monotonic() < until:
            time.sleep(_LISTEN)
        if missing:
            raise RuntimeError(
                f"Workers on {', '.join(sorted(self._nodes))} committed blocks that"
                f" {store.place} lacks, such as {missing[0]}. Name a folder that all"
                " nodes share, by its absolute path, or a bucket."
            )

    def _hand_out(self) -> None:
        """Submit one task more than can run, so no worker waits for the driver."""
        room = self._slots() + 1 - len(self._flying)
        while room > 0 and self._waiting:
            self._send(self._waiting.popleft())
            room -= 1
        if room > 1 and len(self._took) >= len(self._left):
            late = time.monotonic() - _SLOW * statistics.median(self._took)
            flights = sorted(self._flying.values(), key=lambda flight: flight[1])
            flying = collections.Counter(block for block, _ in flights)
            for block, since in flights:
                if room > 1 and flying[block] == 1 and since < late:
                    self._send(block)
                    room -= 1

    def _send(self, block: int) -> None:
        self._flying[self._submit(block)] = (block, time.monotonic())

    def _outcome(self, task: Any, block: int) -> str | None:
        """Return the node that made the block; None if it failed."""
        try:
            return self._ray.get(task)
        except self._ray.exceptions.RayTaskError as error:
            self._raised[block] += 1
            cause = error.cause if isinstance(error.cause, Exception) else error
            if isinstance(cause, NoAcceleratorError) and not self._took:
                raise cause from None  # other nodes would probably raise it too
            self._again(block, f"{type(cause).__name__}: {cause}")
        except self._ray.exceptions.RayError as error:
            self._lost[block] += 1
            self._again(block, f"its worker died ({type(error).__name__})")
        return None

    def _again(self, block: int, why: str) -> None:
        """Submit a block again, or set it aside."""
        flying = any(block == other for other, _ in self._flying.values())
        if block not in self._left or flying:
            return
        if self._raised[block] < _RAISED and self._lost[block] < _LOST:
            self._waiting.append(block)
            return
        self._left.discard(block)
        self._aside[block] = why
        if len(self._aside) >= _SET_ASIDE:
            raise self._error()

    def _error(self) -> RuntimeError:
        blocks = ", ".join(map(str, sorted(self._aside)))
        why = next(iter(self._aside.values()))
        return RuntimeError(
            f"Blocks {blocks} of {self._store.place} can't be made; those that are"
            f" done are kept. {why}"
        )


def module() -> Any:
    """Import Ray. Raises: ImportError: it isn't installed; names the extra."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Otherwise a task without accelerators sees all of them.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ImportError(
            "Ray is needed to start tasks: pip install '.[cluster]'."
        ) from error


def _task(ray: Any, options: Ray, gpus: float, *, cards: bool = False) -> Any:
    """Return the remote function that trains a block; `cards`: not by this JAX."""
    variables = {
        name: os.environ[name]
        for name in (*options.forward, *_ALWAYS)
        if name in os.environ
    }
    variables["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    variables["LOKY_MAX_CPU_COUNT"] = str(options.cpus)  # for A that isn't batched
    if 0 < gpus < 1:
        variables["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{_PART * gpus:.4f}"
    if cards:
        variables[_CARDS] = "1"
    elif not gpus:
        # Ray neither hides GPUs from a task without any nor limits threads.
        variables |= {"JAX_PLATFORMS": "cpu", "NPROC": str(options.cpus)}
    remote = ray.remote(max_calls=0, max_retries=0)(_make)
    return remote.options(
        num_cpus=options.cpus,
        num_gpus=gpus,
        memory=options.memory,
        runtime_env={"env_vars": variables},
        name="shadow models",
    )


def _for_a_block(store: Store) -> Store:
    """Limit the models trained at once to one block, since a task makes one block."""
    factory, block = store.factory, len(range(*store.block_range(0)))
    together = factory.models_at_once
    if together <= block:
        return store
    # The same number on each device.
    width = max(1, factory.trained_with["width"] * block // together)
    assert store._targets is not None
    return store.made_by(dataclasses.replace(factory, width=width), store._targets)


def _make(run: str, prepared: list[Any], number: int, block: int) -> str:
    """Train one block of store `number` in a worker; return the worker's node."""
    import ray

    if run not in _prepared:
        if compiled.VARIABLE in os.environ:
            compiled.keep_in(os.environ[compiled.VARIABLE])
        if _CARDS in os.environ:
            devices.cpu_only()  # another process has the card
        elif ray.get_gpu_ids():
            reserved.require("Ray")
        elif os.environ.get("JAX_PLATFORMS") == "cpu":
            jax.config.update("jax_num_cpu_devices", int(os.environ["NPROC"]))
        _prepared.clear()
        prepare: Prepare = ray.get(prepared[0])
        _prepared[run] = [_for_a_block(store) for store in prepare()]
    _prepared[run][number].fill(blocks=[block], progress=False)
    return ray.get_runtime_context().get_node_id()[:8]
