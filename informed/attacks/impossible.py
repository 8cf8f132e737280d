"""Errors of the closed-form and span attacks: why a target can't be reconstructed.

There are three, because a limit of this tool doesn't show that a target is safe.
`closed_form.estimator_attack` and `span_attack` tell them apart.
"""


class ReconstructionImpossibleError(ValueError):
    """The release does not determine the target; the message says why."""


class NoTraceError(ReconstructionImpossibleError):
    """This release holds no trace of the target. Other releases may hold theirs."""


class LimitError(ReconstructionImpossibleError):
    """This tool can't examine the release, which may still determine the target."""
