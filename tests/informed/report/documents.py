"""Documents of audits as tests write them, without an audit."""

NONE = {"successes": 0, "trials": 20, "rate": 0.0, "low": 0.0, "high": 0.168}


ALL = {"successes": 6, "trials": 6, "rate": 1.0, "low": 0.54, "high": 1.0}


def attack(name, rate, **more):
    return {
        "name": name, "sees": "all weights", "knows": "all but one", "tried": True,
        "success": rate, "exact": rate, "mse_median": 0.1, "certified": None,
        "certified_wrong": None, "planned": 20, "finished": 20, "targets": 20,
        "why_not": "", "applies": True, "needs_seconds": None,
    } | more  # fmt: skip


def document(*attacks, **more):
    return {
        "attacks": list(attacks),
        "subject": {"targets": 20, "kind": "images"},
        "bounds": {"rows": [], "privacy": None},
        "records": [],
    } | more
