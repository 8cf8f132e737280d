"""`--fail-if "exact > 0 or success_upper > 0.05"`: an exit code for release gates.

An expression compares documented fields with numbers, joined by `and`, `or`, `not` and
brackets. It is parsed, never evaluated as Python. What nothing is known of, because no
attack finished, fails: a gate that lets through what wasn't measured is none.

Checked: tests/informed/cli/test_gate.py.
"""

import ast
import dataclasses
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from shadow import checks

Value = float | None
_OPERATORS: dict[type[ast.cmpop], tuple[str, Callable[[float, float], bool]]] = {
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
}
# Far beyond what a person writes, far below what the parser could stumble over.
_LONGEST = 500

# What an expression may name, by command.
_ATTACKS = {
    "certified": "most records that an attack itself knows to be exact",
    "success": "largest share of records that an attack read better than any guess"
    " without the release",
    "success_upper": "largest upper end of its 95 % interval",
    "mse_median": "least median MSE per pixel of an attack",
}
FIELDS: dict[str, Mapping[str, str]] = {
    "audit": {
        "exact": "most records that an attack read exactly",
        **_ATTACKS,
        "named": "records named out of a gallery of public ones and the record, by"
        " training again; not known where weights can't be compared",
        "tpr": "how often a guess recognises its record, at 1 % false positives",
        "untried": "attacks that apply and were not begun",
        "unfinished": "records that were asked for and that attacks did not finish",
        "broken": "1 where an attack did better than a declared bound allows, else 0",
    },
    "run": {**_ATTACKS, "mse": "least mean MSE per pixel of an attack"},
    "artefact": {
        "exact": "1 where the missing row is read exactly, else 0",
        "certified": "1 where that is certified, else 0",
        "determined": "fields of the row that are determined",
        "determined_share": "their share of all fields",
        "estimated": "fields that are estimated and not determined",
        "words": "words of the missing text that are told",
        "named": "1 where one row of the gallery alone fits, else 0",
        "stored": "arrays that hold training rows as they are",
        "unread": "parts of the model that no reader told anything of",
    },
}


class GateFailedError(RuntimeError):
    """An expression of --fail-if holds, or can't be decided; the message says why."""

    exit_code = 4


@dataclasses.dataclass(frozen=True)
class Gate:
    """A parsed expression.

    Attributes:
      text: as it was given.
      tree: what it was parsed to.
    """

    text: str
    tree: ast.expr

    @classmethod
    def parse(cls, text: str, command: str) -> "Gate":
        """An expression over the fields of a command.

        Raises: FieldError: it isn't one; says what is allowed.
        """
        names = FIELDS[command]
        try:
            if len(text) > _LONGEST:
                raise SyntaxError(f"it is longer than {_LONGEST} characters")
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            reason = getattr(error, "msg", None) or str(error)
            raise _wrong(text, f"{reason}") from error
        _check(text, tree, names)
        return cls(text, tree)

    def require(self, values: Mapping[str, Value]) -> None:
        """Pass, or raise.

        Args:
          values: of the command's fields; None: nothing is known of it.
        Raises: GateFailedError: the expression holds, or nothing tells.
        """
        reasons: list[str] = []
        found = _evaluated(self.tree, values, reasons)
        if found is False:
            return
        what = "it holds" if found else "it can't be decided"
        raise GateFailedError(
            f"--fail-if {self.text!r}: {what} ({', '.join(reasons)})."
        )


def _wrong(text: str, why: str) -> checks.FieldError:
    return checks.FieldError(
        "--fail-if",
        f"Expected {{}} such as 'exact > 0 or success_upper > 0.05', got {text!r}:"
        f" {why}.",
    )


def _check(text: str, node: ast.expr, names: Mapping[str, str]) -> None:
    """Raise FieldError unless a tree holds comparisons and what joins them alone."""
    if isinstance(node, ast.BoolOp):
        for each in node.values:
            _check(text, each, names)
        return
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        _check(text, node.operand, names)
        return
    if not isinstance(node, ast.Compare):
        raise _wrong(text, "expected comparisons, joined by and, or, not")
    sides = [node.left, *node.comparators]
    for compares in node.ops:
        if type(compares) not in _OPERATORS:
            raise _wrong(text, "expected >, >=, <, <=, == or !=")
    for side in sides:
        if isinstance(side, ast.Name):
            if side.id not in names:
                near = checks.nearest(side.id, names)
                raise _wrong(
                    text,
                    f"there is no field {side.id}.{near} It has {', '.join(names)}",
                )
        elif _number(side) is None:
            raise _wrong(text, "expected names of fields and numbers to be compared")
    if not any(isinstance(side, ast.Name) for side in sides):
        raise _wrong(text, "a comparison names no field")


def _number(node: ast.expr) -> float | None:
    """The number that a node is; None: it is something else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
        return None
    try:
        return float(node.value) if isinstance(node.value, int | float) else None
    except OverflowError:  # a whole number of hundreds of digits
        return None


def _evaluated(
    node: ast.expr, values: Mapping[str, Value], reasons: list[str]
) -> bool | None:
    """What a tree says; None: nothing tells. Adds comparisons that made it fail."""
    if isinstance(node, ast.UnaryOp):
        inner = _evaluated(node.operand, values, reasons)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        found = [_evaluated(each, values, reasons) for each in node.values]
        decides = isinstance(node.op, ast.Or)
        if decides in found:
            return decides
        return None if None in found else not decides
    assert isinstance(node, ast.Compare)
    return _compared(node, values, reasons)


def _compared(
    node: ast.Compare, values: Mapping[str, Value], reasons: list[str]
) -> bool | None:
    """One comparison, or a chain of them as in 0 < exact <= 3."""
    sides = [
        values.get(side.id) if isinstance(side, ast.Name) else _number(side)
        for side in (node.left, *node.comparators)
    ]
    sides = [None if side is None or math.isnan(side) else side for side in sides]
    for side, value in zip((node.left, *node.comparators), sides, strict=True):
        if isinstance(side, ast.Name):
            said = "not known" if value is None else f"{value:g}"
            reason = f"{side.id} is {said}"
            if reason not in reasons:
                reasons.append(reason)
    found: list[bool | None] = []
    for one, each, other in zip(sides, node.ops, sides[1:], strict=False):
        _, holds = _OPERATORS[type(each)]
        found.append(None if one is None or other is None else holds(one, other))
    if False in found:
        return False
    return None if None in found else True


# What commands make the values of


def share(rate: Mapping[str, Any]) -> Value:
    """Successes over trials; None: there were none."""
    return rate["successes"] / rate["trials"] if rate["trials"] else None


def most(values: Any) -> Value:
    """The largest of what is known; None: nothing is."""
    return max(_known(values), default=None)


def least(values: Any) -> Value:
    """The least of what is known; None: nothing is."""
    return min(_known(values), default=None)


def _known(values: Any) -> list[float]:
    """Numbers among values that may be None, or NaN, which compares with nothing."""
    found = [float(value) for value in values if value is not None]
    return [value for value in found if not math.isnan(value)]


def add_argument(parser: Any, command: str) -> None:
    """`--fail-if` of a command."""
    names = ", ".join(FIELDS[command])
    parser.add_argument(
        "--fail-if",
        metavar="EXPRESSION",
        help=f"exit with 4 where this holds or can't be decided; fields: {names}",
    )


def of_arguments(arguments: Any) -> "Gate | None":
    """The gate of a command line, parsed before anything is done."""
    text = arguments.fail_if
    return None if text is None else Gate.parse(text, arguments.command)
