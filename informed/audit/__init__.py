"""An audit of one's own training: one function, one page.

auditing    everything, in order; `informed.audit(train, data)`
contract    the training function: found, and how it is called
released    what it returns, as named arrays
subject     the function and the data as an algorithm A
preflight   what a few runs tell; `causes` why equal arguments give other weights;
            `instability` whether training is chaotic
budget      how many models a time allows; `limits` time limits
trials      the attacks; `judging` against the truth and the baselines
membership  who was in
records     which records fall, and what would have told
defences    what stops it; `noise` an attack beside its bound
document    the result: JSON, CSV, page
release     one real release, and one of its records
weights     released weights from .npz, .safetensors, Orbax
"""

from informed.audit.auditing import (
    AuditConfig,
    AuditStoppedError,
    audit,
    check,
)
from informed.audit.document import Document, schema
from informed.audit.forecast import estimate
from informed.audit.preflight import Finding, Preflight

__all__ = [
    "AuditConfig",
    "AuditStoppedError",
    "Document",
    "Finding",
    "Preflight",
    "audit",
    "check",
    "estimate",
    "schema",
]
