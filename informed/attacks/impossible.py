"""Errors of attacks that cannot reconstruct a target from its release, with the reason.

The closed-form and the span attacks raise them.
"""


class ReconstructionImpossibleError(ValueError):
    """The release does not determine the target; the message says why."""


class NoTraceError(ReconstructionImpossibleError):
    """This release holds no trace of the target. Other releases may hold theirs."""


class LimitError(ReconstructionImpossibleError):
    """This tool can't examine the release, which may still determine the target."""
