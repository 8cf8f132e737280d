"""Why a release does not give its target away, as errors that say so in one line."""


class ReconstructionImpossibleError(ValueError):
    """The release does not determine the target; the message says why."""


class NoTraceError(ReconstructionImpossibleError):
    """This release holds nothing of the target. Another release may."""


class LimitError(ReconstructionImpossibleError):
    """This tool cannot look. The release may determine the target all the same."""
