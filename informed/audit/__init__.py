"""Audit your own training: one function in, one report out.

The package itself is callable: `informed.audit(train, data)`. `auditing` has the steps
in order.
"""

import sys
import types
from typing import Any

from informed.audit.auditing import AuditConfig, audit, check
from informed.audit.findings import AuditStoppedError, Finding, Preflight
from informed.report.document import Report, schema

__all__ = [
    "AuditConfig",
    "AuditStoppedError",
    "Finding",
    "Preflight",
    "Report",
    "audit",
    "check",
    "schema",
]


class _Callable(types.ModuleType):
    """A module that can be called like a function."""

    def __call__(self, *arguments: Any, **named: Any) -> Report:
        """Audit a training; see `informed.audit.auditing.audit`."""
        return audit(*arguments, **named)


sys.modules[__name__].__class__ = _Callable
