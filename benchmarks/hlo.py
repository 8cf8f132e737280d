"""Reading a compiled program: what its products round to, scatters, kernels.

From the text of the scheduled HLO that XLA hands to a GPU.
"""

import dataclasses
import re
from typing import Any

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.\-]+ = (.+)$")
_OPERATION = re.compile(r"^(?:\([^)]*\)|\S+) ([\w\-]+)\(")
_PRECISION = re.compile(r'operand_precision"?[=:]\s*[{\[]([^}\]]*)[}\]]')
_PRODUCTS = ("dot", "convolution")
_LIBRARIES = ("cublas", "cudnn", "matmul", "conv")
# What is no kernel of its own.
_FREE = (
    *("parameter", "tuple", "get-tuple-element", "bitcast", "constant"),
    *("while", "conditional", "after-all", "partition-id", "optimization-barrier"),
)


@dataclasses.dataclass(frozen=True)
class Read:
    """What a program does.

    Attributes:
      products: matrix products and convolutions of float32, all over.
      below_highest: those of them at a lower precision.
      scatters: scatters, all over.
      kernels: in the longest body of a loop, which is a step of training; or, without
        loops, in all.
    """

    products: int
    below_highest: int
    scatters: int
    kernels: int


def read(compiled: Any) -> Read:
    """Of a compiled program."""
    text = compiled.as_text()
    bodies = _computations(text)
    products = [
        line
        for lines in bodies.values()
        for line in lines
        if _is_product(line) and _float32(line)
    ]
    steps = set(re.findall(r"body=%?([\w.\-]+)", text))
    counted = {name: _kernels(lines, bodies) for name, lines in bodies.items()}
    of_steps = [counted[name] for name in steps if name in counted]
    return Read(
        products=len(products),
        below_highest=sum(not _highest(line) for line in products),
        scatters=sum(
            _operation(line) == "scatter" for b in bodies.values() for line in b
        ),
        kernels=max(of_steps, default=max(counted.values(), default=0)),
    )


def _computations(text: str) -> dict[str, list[str]]:
    """The instructions of each computation, by its name."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        begins = _COMPUTATION.match(line)
        if begins:
            lines = found.setdefault(begins.group(1), [])
        elif line.startswith("}"):
            lines = []
        else:
            instruction = _INSTRUCTION.match(line)
            if instruction:
                lines.append(instruction.group(1))
    return found


def _operation(line: str) -> str:
    found = _OPERATION.match(line)
    return found.group(1) if found else ""


def _is_product(line: str) -> bool:
    operation = _operation(line)
    if operation == "custom-call":
        target = re.search(r'custom_call_target="([^"]*)"', line)
        return target is not None and any(n in target.group(1) for n in _LIBRARIES)
    return operation in _PRODUCTS


def _float32(line: str) -> bool:
    return line.startswith(("f32", "(f32"))


def _highest(line: str) -> bool:
    found = _PRECISION.search(line)
    if found is None:
        return False
    # Of both factors; a convolution of cuDNN's has its bias as a third operand.
    both = found.group(1).split(",")[:2]
    return all(each.strip(' "').lower() == "highest" for each in both)


def _kernels(lines: list[str], bodies: dict[str, list[str]]) -> int:
    """Kernels of a computation, those of command buffers that it calls included."""
    count = 0
    for line in lines:
        operation = _operation(line)
        if operation == "call":
            called = re.search(r"to_apply=%?([\w.\-]+)", line)
            count += _kernels(bodies[called.group(1)], bodies) if called else 0
        elif operation and operation not in _FREE:
            count += 1
    return count
