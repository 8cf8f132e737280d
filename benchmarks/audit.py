"""Audits of foreign code: one JSON line each.

    python -m benchmarks.audit [--only=sklearn] [--minutes=12]

The examples `examples/audit_*.py` as they are: scikit-learn's MLPClassifier on digits,
a Flax model on MNIST, a PyTorch CNN on MNIST, a logistic regression on a table, and
training with noise. Pages and numbers go to --out. A line has: code, minutes, targets
(attacked by the inversion), certified, certified_wrong, exact; best_attack,
first (sentence of the page), best_mse_median and successes of the attack that succeeded
most often, baseline_mse (the best guess without the release, median), label_right
(share, of the attacks that name labels the best), bounds (noise multiplier, attack,
bound).
"""

import argparse
import json
import runpy
import time
from pathlib import Path

from informed.report import words

CODES = {"sklearn": 12.0, "flax": 12.0, "torch": 14.0, "table": 10.0, "private": 8.0}
_EXAMPLES = Path(__file__).parent.parent / "examples"


def measured(code: str, minutes: float, out: Path) -> dict[str, object]:
    """One line."""
    started = time.monotonic()
    audit = runpy.run_path(str(_EXAMPLES / f"audit_{code}.py"))["main"](minutes=minutes)
    for form in ("html", "json"):
        audit.save(out / f"audit_{code}.{form}")
    values = audit.values
    rows = {row["name"]: row for row in values["attacks"] if row["tried"]}
    inversion, best = rows.get("inversion"), words.strongest(values)
    oracles = [b["mse_median"] for b in values["baselines"] if b["oracle"]]
    shares = [
        row["labels_right"] / row["labels_named"]
        for row in rows.values()
        if row["labels_named"]
    ]
    return {
        "code": code,
        "minutes": round((time.monotonic() - started) / 60, 2),
        "targets": 0 if inversion is None else inversion["targets"],
        "certified": None if inversion is None else inversion["certified"],
        "certified_wrong": None if inversion is None else inversion["certified_wrong"],
        "exact": inversion["exact"]["successes"]
        if inversion is not None and inversion["exact"]
        else None,
        "first": words.first_lines(values)[0],
        "best_attack": None if best is None else best["name"],
        "best_mse_median": None if best is None else best["mse_median"],
        "successes": None if best is None else best["success"]["successes"],
        "of": None if best is None else best["success"]["trials"],
        "baseline_mse": min(oracles),
        "label_right": max(shares, default=None),
        "bounds": [
            [r["noise_multiplier"], r["success"]["rate"], r["bound"]]
            for r in values["bounds"]["rows"]
        ],
    }


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=CODES)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--out", type=Path, default=Path("runs/audits"))
    arguments = parser.parse_args()
    for code in [arguments.only] if arguments.only else CODES:
        minutes = arguments.minutes or CODES[code]
        print(json.dumps(measured(code, minutes, arguments.out)), flush=True)


if __name__ == "__main__":
    main()
