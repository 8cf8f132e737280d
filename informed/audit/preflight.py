"""What can be said of a training function after a few runs of it, before an audit.

Same arguments twice: the same weights? Another target, another order, another key:
other weights? Does JAX trace and differentiate it? How long does a model take? Whatever
voids an audit, or weakens it, becomes a finding with its remedy.
"""

import time
from collections.abc import Callable

from informed.audit.findings import LEVELS, Finding, Preflight
from informed.audit.probe import BUSY, others_at_work
from informed.audit.questions import Look
from informed.audit.subject import Subject
from shadow import limits

__all__ = ["Finding", "Preflight", "check"]

# Share of an audit's time for questions that it can do without.
SHARE = 0.2


def check(
    subject: Subject,
    progress: Callable[[str], None] = lambda _: None,
    *,
    limit: float = float("inf"),
) -> Preflight:
    """Run the training function a few times.

    Args:
      subject: what is audited; its engine is found out here.
      progress: called with what is done next.
      limit: seconds of the audit; a fifth of them may go into questions that it can do
        without. A few trainings are run in any case.
    Raises: RuntimeError: the function raises; FieldError: it returns no arrays.
    """
    started = time.monotonic()
    busy = others_at_work()
    look = Look(subject, progress, limits.Clock(SHARE * limit, started))
    look.first()
    if not look.stopped:
        look.again()
    if not look.stopped:
        look.engine()
        look.target()
    if not look.stopped:
        look.order_and_key()
        look.place()
        look.outside()
        look.private()
        look.stored()
        look.asked()
    if not look.stopped:
        look.timed()
        if not look.deterministic and look.noise > 0:
            times = look.noise / max(look.apart, 1e-300)
            look.say(
                "note",
                f"runs with equal arguments are {times:.3g} times as far apart as"
                " models of two targets",
            )
        if busy is not None and busy >= BUSY:
            look.say(
                "note",
                f"other jobs used {100 * busy:.0f} % of the cores while times were"
                " measured: a quiet machine is faster",
            )
    return Preflight(
        subject=look.subject,
        returned=look.returned,
        findings=tuple(sorted(look.findings, key=lambda f: LEVELS.index(f.level))),
        params=len(look.theta),
        arrays=tuple(look.parts),
        seconds_a_model=look.seconds or look.each,
        seconds_each=look.each,
        at_once=look.at_once,
        busy=busy,
        order_matters=look.order_matters,
        key_matters=look.key_matters,
        instability=look.instability,
        accuracy=look.accuracy,
    )
