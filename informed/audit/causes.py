"""Why a training function gives other weights for the same arguments.

By experiment first: the global random generators of Python, NumPy and PyTorch are
seeded before each of two runs, one library at a time, and then the clocks are stopped.
What makes both runs equal is the cause. Lines of the source that can do it are named.
"""

import ast
import contextlib
import functools
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np

from informed.audit.contract import Contract

Run = Callable[[], np.ndarray]

_SUSPECTS = (
    (r"default_rng\(\s*\)", "np.random.default_rng() without a seed"),
    (r"np\.random\.(shuffle|permutation|rand|randn|normal|choice|uniform)\(",
     "NumPy's global generator"),
    (r"\brandom\.(shuffle|random|choice|sample|randint)\(",
     "Python's global generator"),
    (r"shuffle\s*=\s*True", "a shuffled loader"),
    (r"[Dd]ropout", "dropout"),
    (r"random_state\s*=\s*None", "random_state=None"),
    (r"\btime\.(time|monotonic|perf_counter)\(|datetime\.(now|today)", "a clock"),
    (r"os\.urandom|secrets\.|uuid4", "the system's randomness"),
    (r"\bhash\(", "hash(), which differs between processes"),
)  # fmt: skip


def find(run: Run, contract: Contract) -> tuple[str, str]:
    """The cause, and its remedy.

    Args:
      run: () -> theta, for the same arguments each time.
      contract: the training function whose source is read.
    """
    seed = {"key": "int(jax.random.bits(key)) % 2**31", "seed": "seed"}.get(
        contract.takes, "0"
    )
    remedies = {
        "torch": f"call torch.manual_seed({seed}) at the beginning of train",
        "numpy": f"use np.random.default_rng({seed}) instead of np.random's functions",
        "random": f"use random.Random({seed}) instead of random's functions",
    }
    names = {
        "torch": "PyTorch's global generator (start, dropout, shuffled loaders)",
        "numpy": "NumPy's global generator",
        "random": "Python's global generator",
    }
    if "torch" not in sys.modules:
        del remedies["torch"]
    together = "; ".join(remedies.values())
    tried: list[tuple[Sequence[str], str, str]] = [
        ([library], f"it draws from {names[library]}", remedy)
        for library, remedy in remedies.items()
    ]
    tried.append((list(remedies), "it draws from several global generators", together))
    for libraries, cause, remedy in tried:
        with _kept_generators():
            if _equal(functools.partial(_seeded, run, libraries)):
                return _with_lines(cause, remedy, contract)
    with _kept_generators(), _stopped_clocks():
        if _equal(functools.partial(_seeded, run, list(remedies))):
            cause = "it reads a clock"
            return _with_lines(cause, "stop by steps, not by time", contract)
    return _with_lines(
        "no global generator and no clock explains it",
        "look for generators without a seed, and for sums whose order depends on"
        " threads (torch.use_deterministic_algorithms(True))",
        contract,
    )


def suspects(source: str, function: str | None = None) -> list[str]:
    """Lines that may draw what the key doesn't decide: "line 12: a shuffled loader".

    Args:
      source: of a file, or of a function.
      function: the function whose lines count, with those of the functions that it
        names; None: all lines count.
    """
    found = []
    reached = None if function is None else _reached(source, function)
    for number, line in enumerate(source.splitlines(), 1):
        if reached is not None and number not in reached:
            continue
        code = line.split("#", 1)[0]
        for pattern, what in _SUSPECTS:
            if re.search(pattern, code):
                found.append(f"line {number}: {what}")
    return found


def _reached(source: str, function: str) -> set[int] | None:
    """Lines of a function and of whatever its file defines that it leads to.

    Returns: None: it isn't defined at the top of the file, so that nobody knows.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a function inside another one, by itself
        return None
    defined: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined[node.name] = node
        elif isinstance(node, ast.Assign):
            for each in ast.walk(node):
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                    defined[each.id] = node
    if function not in defined:
        return None
    todo, seen = [function], set[str]()
    lines: set[int] = set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        node = defined[name]
        lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        todo += [
            each.id
            for each in ast.walk(node)
            if isinstance(each, ast.Name) and each.id in defined
        ]
    return lines


def _with_lines(cause: str, remedy: str, contract: Contract) -> tuple[str, str]:
    in_file = contract.path is not None
    function = contract.name.rpartition(":")[2] if in_file else None
    lines = suspects(contract.source, function)
    if lines:
        cause += f" ({'; '.join(lines[:4])})"
    return cause, remedy


def _equal(run: Run) -> bool:
    return np.array_equal(run(), run(), equal_nan=True)


def _seeded(run: Run, libraries: Sequence[str]) -> np.ndarray:
    for library in libraries:
        if library == "random":
            random.seed(0)
        elif library == "numpy":
            np.random.seed(0)  # noqa: NPY002 - it is what the function may draw from
        else:
            sys.modules[library].manual_seed(0)
    return run()


@contextlib.contextmanager
def _kept_generators() -> Iterator[None]:
    """Global generators are afterwards as they were before."""
    torch: Any = sys.modules.get("torch")
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    of_torch = None if torch is None else torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        if torch is not None:
            torch.set_rng_state(of_torch)


@contextlib.contextmanager
def _stopped_clocks() -> Iterator[None]:
    """time.time and its like stand still."""
    with contextlib.ExitStack() as stack:
        for name in ("time", "monotonic", "perf_counter", "time_ns"):
            now = getattr(time, name)()
            stack.enter_context(mock.patch.object(time, name, lambda now=now: now))
        yield
