"""What an audit is going to do and take, for people who decide and for machines."""

import dataclasses
import json
from typing import Any

import numpy as np

from informed.audit import budget, playing
from informed.audit.findings import Preflight
from informed.report import words
from shadow import files


def plan(
    checked: Preflight, *, minutes: float, targets: int, passed: float = 0.0
) -> budget.Budget:
    """How the time is divided.

    Args:
      minutes: time that the audit may take.
      targets: number of records that should be attacked.
      passed: seconds that are gone.
    Raises: FieldError: the time isn't enough for one target.
    """
    about = checked.subject
    return budget.plan(
        minutes=minutes,
        passed=passed,
        seconds_a_model=checked.seconds_a_model,
        targets=targets,
        public=len(about.split.shadow),
        params=checked.params,
        features=int(np.prod(about.fixed.image_shape)),
        num_classes=about.fixed.num_classes,
        differentiable=about.engine == "jax",
    )


def estimate(checked: Preflight, *, minutes: float, targets: int) -> dict[str, Any]:
    """What the audit will do and take."""
    about = checked.subject
    planned = plan(checked, minutes=minutes, targets=targets)
    each = checked.seconds_a_model
    bytes_a_model = 4 * checked.params
    return {
        "seconds_a_model": each,
        "seconds_each": checked.seconds_each,
        "at_once": checked.at_once,
        "busy": checked.busy,
        "targets": planned.targets,
        "shadow_models": planned.shadows,
        "seconds_of_models": each * (planned.targets + 2 * planned.shadows),
        "seconds_an_inversion": planned.trainings_an_inversion * each,
        "seconds_at_most": planned.seconds,
        "memory_bytes": bytes_a_model * (planned.targets + 2 * planned.shadows),
        "disk_bytes": bytes_a_model * planned.shadows,
        "attacks": playing.listed(checked, planned),
        "why": list(planned.why),
        "fixed": len(about.fixed),
        "public": len(about.split.shadow),
    }


def found(checked: Preflight) -> dict[str, Any]:
    """What the pre-flight found, for the document."""
    unstable = checked.instability
    return {
        "findings": [dataclasses.asdict(f) for f in checked.findings],
        "order_matters": checked.order_matters,
        "key_matters": checked.key_matters,
        "instability": unstable
        and {**dataclasses.asdict(unstable), "chaotic": unstable.chaotic},
    }


def as_text(checked: Preflight, *, minutes: float, targets: int) -> str:
    """The pre-flight for people."""
    plan = estimate(checked, minutes=minutes, targets=targets)
    about = checked.subject
    engines = {
        "jax": "JAX, batched and differentiated",
        "runs": "JAX, batched; derivatives by differences of trainings",
        "processes": "run in processes; derivatives by differences of trainings",
    }
    lines = [
        f"{'training':<16}{about.contract.name}, {engines[about.engine]}",
        f"{'data':<16}{about.fixed.name}: {plan['fixed']} known records,"
        f" {plan['targets']} targets, {plan['public']} public",
        f"{'released':<16}{checked.params:,} weights in {len(checked.arrays)} arrays",
        f"{'deterministic':<16}{'yes' if about.deterministic else 'NO'}",
    ]
    if checked.accuracy is not None:
        lines.append(
            f"{'accuracy':<16}{100 * checked.accuracy:.1f} % on public records"
        )
    if checked.instability is not None:
        lines.append(
            f"{'stability':<16}a small change of a record moves the typical weight"
            f" {checked.instability.growth:.2g} times as far as in proportion (1:"
            " smooth; from 7: chaotic)"
        )
    lines.append(
        f"{'a model':<16}{plan['seconds_each']:.3g} s, {plan['at_once']} at once"
    )
    lines.append(
        f"{'the audit':<16}at most {words.seconds(plan['seconds_at_most'])}:"
        f" {plan['shadow_models']} shadow models, about"
        f" {words.seconds(plan['seconds_an_inversion'])} an inversion,"
        f" {plan['memory_bytes'] / 2**20:.0f} MiB of memory,"
        f" {plan['disk_bytes'] / 2**20:.0f} MiB of disk"
    )
    lines += [f"{'':<16}{why}" for why in plan["why"]]
    for row in plan["attacks"]:
        mark = "applies" if row["applies"] else f"no: {row['why_not']}"
        lines.append(f"  {row['name']:<14}{mark}")
    for finding in checked.findings:
        lines.append(f"{finding.level:<16}{finding.what}")
        if finding.remedy:
            lines.append(f"{'  remedy':<16}{finding.remedy}")
    return "\n".join(lines)


def as_json(checked: Preflight, *, minutes: float, targets: int) -> str:
    """The pre-flight for machines."""
    values = {
        "train": checked.subject.contract.name,
        "engine": checked.subject.engine,
        "deterministic": checked.subject.deterministic,
        "params": checked.params,
        "accuracy": checked.accuracy,
        **found(checked),
        "plan": estimate(checked, minutes=minutes, targets=targets),
    }
    return json.dumps(files.finite(values), allow_nan=False)
