"""Audit a user's training function: can a record be read out of the models it releases?

Users call the package itself: `informed.audit(train, data)` returns a report. The
command `informed audit` calls `auditing`, which has the steps in order.
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
        """Audit a training function; see `informed.audit.auditing.audit`."""
        return audit(*arguments, **named)


sys.modules[__name__].__class__ = _Callable
