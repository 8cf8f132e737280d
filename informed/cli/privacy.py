"""Run the commands `bound` and `calibrate`: bounds for DP-SGD, and noise for a bound.

    informed bound --noise-multiplier 1 --steps 100 --kappa 1e-3
    informed calibrate --gamma 0.01 --steps 100 --kappa 1e-3

`command_table` calls `execute`. A bound is the highest probability gamma of
reconstructing a record; `dp` computes it. It is printed with what it assumes about the
sampling of batches, and with the number that holds if the assumption fails. No model is
trained. Only --figure writes a file, and --bounds runs one.
"""

import argparse
import contextlib
import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import dp
from dp import domain, rero
from dp.sampling import SAMPLINGS
from informed.cli import registering
from shadow import files

_NOTHING = 0.99995  # a probability that is printed as 1 bounds nothing
_SCRIPT = ("records", "batch", "epochs")


def execute(arguments: argparse.Namespace, rest: Sequence[str]) -> None:
    """Run one of the commands and print its result."""
    registering.run(arguments.bounds)
    kappa, log_kappa = arguments.kappa, arguments.log_kappa
    if (kappa is None) == (log_kappa is None):
        raise ValueError("Expected exactly one of --kappa and --log-kappa.")
    if kappa is not None:
        log_kappa = math.log(kappa)
    by_history = getattr(arguments, "history", None) is not None
    bounded = _of_history if by_history else _of_arguments
    result, bound = bounded(arguments, log_kappa)
    if arguments.json:
        print(json.dumps(files.finite(result), allow_nan=False))
    else:
        print(_table(result, bound))


def _of_arguments(
    arguments: argparse.Namespace, log_kappa: float
) -> tuple[dict[str, Any], dp.ReRoBound]:
    """Return bound or calibration of the training that the options describe."""
    if arguments.command == "bound" and arguments.noise_multiplier is None:
        raise ValueError("Expected --noise-multiplier, or --from and a history.")
    batches, relation = _batches(arguments), arguments.relation
    probability = arguments.sampling_probability
    training: dict[str, Any] = {
        "steps": arguments.steps,
        "sampling_probability": 1.0 if probability is None else probability,
    }
    calibration = None
    if arguments.command == "bound":
        sigma = arguments.noise_multiplier
    else:
        calibration = dp.calibrate(
            arguments.gamma,
            log_kappa=log_kappa,
            relation=relation,
            delta=arguments.delta,
            **(training if batches is None else {"batches": batches}),
        )
        sigma = calibration.noise_multiplier
    # Calibration may find that no noise is needed, but a mechanism needs some.
    least = float(np.finfo(float).tiny) if calibration else sigma
    run: Any
    if batches is None:
        run = dp.PoissonGaussian(
            noise_multiplier=sigma or least, relation=relation, **training
        )
        assumption = dp.assumption(run)
    else:
        run = batches.mechanism(noise_multiplier=sigma or least, relation=relation)
        assumption = batches.assumption(run)
        shuffled = batches.sampling == "shuffled"
        training = {
            **{name: getattr(batches, name) for name in (*_SCRIPT, "sampling")},
            "steps": batches.steps,
            "sampling_probability": None if shuffled else batches.sampling_probability,
        }
    result, bound = _result(
        arguments, log_kappa, run, sigma, assumption, arguments.records, calibration
    )
    if batches is not None:
        result["samplings"] = _samplings(batches, sigma or least, arguments, log_kappa)
    if arguments.figure is not None:
        if not math.exp(log_kappa):
            raise ValueError("--figure draws kappa, which underflows: leave it out.")
        target = arguments.gamma if calibration else None
        _draw(run, log_kappa, arguments, target)
    return result | training, bound


def _samplings(
    batches: dp.Batches,
    sigma: float,
    arguments: argparse.Namespace,
    log_kappa: float,
) -> dict[str, dict[str, float]]:
    """Return bounds of the same training under every sampling scheme that has one."""
    rows = {}
    for sampling in SAMPLINGS:
        other = dataclasses.replace(batches, sampling=sampling)
        with contextlib.suppress(domain.FieldError):
            run = other.mechanism(noise_multiplier=sigma, relation=arguments.relation)
            bound = dp.rero_bound(run, log_kappa=log_kappa)
            rows[sampling] = {
                "log_gamma": float(bound.log_gamma),
                "gamma": float(bound.gamma),
                "epsilon": run.epsilon(arguments.delta),
            }
    return rows


def _draw(
    run: Any, log_kappa: float, arguments: argparse.Namespace, gamma: float | None
) -> None:
    """Draw gamma against noise and epsilon into the file of --figure."""
    figure = dp.plot(
        run, kappas=[math.exp(log_kappa)], gamma=gamma, delta=arguments.delta
    )
    arguments.figure.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(arguments.figure)


def _of_history(
    arguments: argparse.Namespace, log_kappa: float
) -> tuple[dict[str, Any], dp.ReRoBound]:
    """Return the bound of the training whose history is in the file of `--from`."""
    said = ("noise_multiplier", "steps", "sampling_probability", "sampling")
    for name in (*said, *_SCRIPT, "figure"):
        if getattr(arguments, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} doesn't go with --from, which says it all.")
    try:
        text = arguments.history.read_text()
        values = json.loads(text, object_pairs_hook=_once)
    except domain.FieldError as error:
        raise error.within(str(arguments.history)) from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"Expected {arguments.history} to be JSON, such as json.dump of"
            f" accountant.state_dict() writes it: {error}. Pickles are not read."
        ) from error
    history = dp.History.of(values)
    run = history.mechanism(arguments.relation)
    worst = history.worst(arguments.relation)
    sigma, assumption = history.noise_multiplier, dp.assumption(worst)
    result, bound = _result(
        arguments, log_kappa, run, sigma, assumption, history.records
    )
    if history.changed:
        result["assumption"] += (
            ". Settings changed in the course of training: what is said of batches and"
            " under otherwise is of the worst"
            + (", the bound of all as they were" if history.runs else ", as the bound")
        )
    return result | dataclasses.asdict(history), bound


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict. Raises FieldError: a field occurs twice."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise domain.FieldError(twice, "Expected {} once, found it twice.")
    return values


def _result(
    arguments: argparse.Namespace,
    log_kappa: float,
    run: Any,
    sigma: float,
    assumption: dp.Assumption,
    records: int | None,
    calibration: dp.Calibration | None = None,
) -> tuple[dict[str, Any], dp.ReRoBound]:
    """Return numbers, assumptions and notes of a mechanism, and its bound."""
    bound = calibration.bound if calibration else None
    bound = bound or dp.rero_bound(run, log_kappa=log_kappa)
    epsilon = calibration.epsilon if calibration else run.epsilon(arguments.delta)
    notes, otherwise = [], []
    if arguments.relation == "zero_out":
        notes.append(
            "zero_out compares with a record whose gradient is zero: that is what"
            " reconstruction needs; to tell members from others may be easier"
        )
    if records is not None and arguments.delta >= 1 / records:
        notes.append(
            f"delta {arguments.delta:g} is no less than one of {records} records: a"
            " release of one record in the clear may satisfy it"
        )
    for condition, mechanism in assumption.otherwise:
        worse = dp.rero_bound(mechanism, log_kappa=log_kappa)
        otherwise.append(
            {
                "if": condition,
                "log_gamma": float(worse.log_gamma),
                "gamma": float(worse.gamma),
                "epsilon": mechanism.epsilon(arguments.delta),
                "relation": mechanism.relation,
            }
        )
    result = {
        "noise_multiplier": sigma,
        "log_kappa": log_kappa,
        "log_gamma": float(bound.log_gamma),
        "gamma": float(bound.gamma),
        "by": str(bound.by),
        "log_gammas": {name: float(value) for name, value in bound.all.items()},
        "epsilon": epsilon,
        "delta": arguments.delta,
        "relation": arguments.relation,
        "assumption": assumption.text,
        "otherwise": otherwise,
        "notes": notes,
    }
    return result, bound


def _batches(arguments: argparse.Namespace) -> dp.Batches | None:
    """Return the training of --records, --batch and --epochs; None: of --steps."""
    given = [name for name in _SCRIPT if getattr(arguments, name) is not None]
    if arguments.steps is None and len(given) == len(_SCRIPT):
        if arguments.sampling_probability is not None:
            raise ValueError(
                "--sampling-probability goes with --steps; here it is --batch over"
                " --records. Leave it out."
            )
        if arguments.sampling is None:
            raise ValueError(
                "--records, --batch and --epochs need --sampling: how batches are drawn"
                " decides what noise protects. Data loaders shuffle (shuffled); poisson"
                " and fixed are of batches that nobody is told."
            )
        return dp.Batches(
            records=arguments.records,
            batch=arguments.batch,
            epochs=arguments.epochs,
            sampling=arguments.sampling,
        )
    if arguments.steps is None or given:
        missing = [f"--{name}" for name in _SCRIPT if name not in given]
        said = (
            f"--steps and --{given[0]}"
            if not missing or arguments.steps
            else (f"no {', '.join(missing)}" if given else "neither")
        )
        raise ValueError(
            "Expected either --records, --batch and --epochs, or --steps (with"
            f" --sampling-probability), got {said}."
        )
    if arguments.sampling is not None:
        raise ValueError(
            "--sampling goes with --records, --batch and --epochs. With --steps leave"
            " it out, and give --sampling-probability for secret Poisson sampling."
        )
    return None


def _table(result: dict[str, Any], bound: dp.ReRoBound) -> str:
    """Format a result as text, without bounds that print as 1."""
    lines = [
        f"{'noise multiplier':<20}{rero.rounded_up(result['noise_multiplier'], 6)}"
    ]
    if "source" in result:
        lines.insert(0, f"{'history':<20}{result['source']}, {result['steps']} steps")
    lines.append(f"{'reconstruction':<20}{bound}")
    for name, value in result["log_gammas"].items():
        if name != result["by"] and math.exp(value) < _NOTHING:
            lines.append(f"{'':<20}{rero.decimal(value, up=True)} by {name}")
    lines.append(
        f"{'epsilon':<20}{rero.rounded_up(result['epsilon'], 4)} at delta"
        f" {result['delta']:g} ({result['relation']})"
    )
    lines += [f"{'note':<20}{note}." for note in result["notes"]]
    lines.append(f"{'this assumes':<20}{result['assumption']}.")
    title = "otherwise"
    for row in result["otherwise"]:
        gamma = rero.decimal(row["log_gamma"], up=True)
        of = f" ({row['relation']})" if row["relation"] != result["relation"] else ""
        lines.append(
            f"{title:<20}gamma <= {gamma}, epsilon"
            f" {rero.rounded_up(row['epsilon'], 4)}{of}, if {row['if']}"
        )
        title = ""
    title = "batches drawn as"
    for sampling, row in result.get("samplings", {}).items():
        gamma = rero.decimal(row["log_gamma"], up=True)
        epsilon = rero.rounded_up(row["epsilon"], 4)
        lines.append(f"{title:<20}{sampling:<12}gamma <= {gamma}, epsilon {epsilon}")
        title = ""
    return "\n".join(lines)
