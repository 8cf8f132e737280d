"""An audit of one's own training: one function, one page.

auditing    everything, in order; `informed.audit(train, data)`
contract    the training function: found, and how it is called
encoding    pictures by a frozen encoder, for a head on it
subject     the function and the data as an algorithm A
preflight   what a few runs tell: `questions`, `probe`, `engines`, `timing`; `findings`;
            `causes` why equal arguments give other weights; `instability` whether
            training is chaotic
budget      how the time is divided; `forecast` what the audit will take
trained     the released and the shadow models
playing     the attacks, which are rows of `informed.attacks.registry`
membership  who was in
records     which records fall, and what would have told
defences    what stops it; `noise` an attack beside its bound
release     one real release, and one of its records
weights     released weights from .npz, .safetensors, Orbax

The package is called like a function: `informed.audit(train, data)`.
"""

import sys
import types
from typing import Any

from informed.audit.auditing import (
    AuditConfig,
    AuditStoppedError,
    audit,
    check,
)
from informed.audit.forecast import estimate
from informed.audit.preflight import Finding, Preflight
from informed.report.report import Report, schema

__all__ = [
    "AuditConfig",
    "AuditStoppedError",
    "Finding",
    "Preflight",
    "Report",
    "audit",
    "check",
    "estimate",
    "schema",
]


class _Callable(types.ModuleType):
    """A package that is a function too, under the one name that people know it by."""

    def __call__(self, *arguments: Any, **named: Any) -> Report:
        """See `informed.audit.auditing.audit`."""
        return audit(*arguments, **named)


sys.modules[__name__].__class__ = _Callable
