"""An audit of one's own training: one function, one page.

The package is called like a function: `informed.audit(train, data)`. Everything in
order is in `auditing`.
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
    """A package that is a function too, under the one name that people know."""

    def __call__(self, *arguments: Any, **named: Any) -> Report:
        """Audit a training; see `informed.audit.auditing.audit`."""
        return audit(*arguments, **named)


sys.modules[__name__].__class__ = _Callable
