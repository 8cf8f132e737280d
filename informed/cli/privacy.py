"""`informed bound` and `informed calibrate`: reconstruction bounds on the command line.

    informed bound --records 60000 --batch 256 --epochs 15 --sampling shuffled \\
        --noise-multiplier 1.1 --kappa 0.01
    informed bound --noise-multiplier 1 --steps 100 --kappa 1e-3
    informed bound --noise-multiplier 1 --steps 1000 --sampling-probability 0.01 \\
        --prior gaussian --dim 784 --sigma 0.3 --mse 0.0232
    informed calibrate --gamma 0.01 --steps 100 --kappa 1e-3

Every number is printed with what it assumes of the batches, and what holds otherwise.
"""

import argparse
import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import dp
from dp import accounting, bounds, checks, poisson, rero
from dp.batches import SAMPLINGS
from informed.cli import registering, success_without
from informed.cli.command_table import refuse_unknown
from shadow import files

if TYPE_CHECKING:
    import matplotlib.figure

_TRAINING = "--records 60000 --batch 256 --epochs 15 --sampling shuffled --kappa 0.01"
_IN_WORDS = {
    "bound": f"\n  informed bound --noise-multiplier 1.1 {_TRAINING}",
    "calibrate": f"\n  informed calibrate --gamma 0.02 {_TRAINING}",
}
_KAPPAS = (0.1, 1e-3, 1e-6)
_POINTS = 25
_NOTHING = 0.99995  # a probability that is printed as 1 bounds nothing
_SCRIPT = ("records", "batch", "epochs")


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """What the command of a name takes."""
    parser.epilog = f"{parser.epilog}".rstrip() + _IN_WORDS[name]
    if name == "bound":
        parser.add_argument(
            "--from",
            dest="history",
            type=Path,
            metavar="FILE.json",
            help="what Opacus or jax-privacy keep of a training, in place of"
            " --noise-multiplier and the training: see docs/privacy.md",
        )
        parser.add_argument(
            "--noise-multiplier",
            type=float,
            help="standard deviation of the noise on the sum of clipped gradients,"
            " over the clipping norm",
        )
        parser.add_argument(
            "--figure", type=Path, help="gamma against epsilon, as a PNG picture"
        )
    else:
        parser.add_argument(
            "--gamma",
            type=float,
            required=True,
            help="the probability of success that is allowed, above kappa",
        )
    _add_training(parser)
    success_without.add_arguments(parser)
    parser.add_argument(
        "--relation",
        default="zero_out",
        choices=bounds.RELATIONS,
        help="what training is compared with; zero_out (default) is always valid"
        " for reconstruction",
    )
    parser.add_argument(
        "--delta", type=float, default=1e-5, help="for epsilon (default 1e-5)"
    )
    parser.add_argument(
        "--bounds",
        type=Path,
        metavar="FILE",
        help="Python file that registers bounds of your own: `dp.register_bound`",
    )


def _add_training(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "training", "either --records, --batch, --epochs and --sampling, or --steps"
    )
    group.add_argument("--records", type=int, help="number of training records")
    group.add_argument("--batch", type=int, help="records in a batch")
    group.add_argument("--epochs", type=int, help="passes over the training records")
    group.add_argument(
        "--sampling",
        choices=SAMPLINGS,
        help="how batches are drawn. shuffled: every record in one batch an epoch, as"
        " data loaders do; poisson: every record takes part in every step with"
        " probability batch / records, and nobody is told who; fixed: a batch of that"
        " size is drawn anew in each step, secretly",
    )
    group.add_argument(
        "--steps",
        type=int,
        help="of training, or, where batches aren't secret, those that a record takes"
        " part in; with --relation add_or_remove, of full batches alone",
    )
    group.add_argument(
        "--sampling-probability",
        type=float,
        help="of each record in each of --steps (default 1: full batches); counts only"
        " while nobody is told who takes part when",
    )


def execute(arguments: argparse.Namespace, rest: Sequence[str]) -> None:
    """Run one of `COMMANDS` and print what it has to say."""
    refuse_unknown(rest)
    registering.run(arguments.bounds)
    log_kappa = success_without.log_kappa(arguments)
    history = _history(arguments)
    if history is None:
        result, bound = _of_arguments(arguments, log_kappa)
    else:
        result, bound = _of_history(arguments, history, log_kappa)
    if arguments.json:
        print(json.dumps(files.finite(result), allow_nan=False))
    else:
        print(_table(result, bound))
    if getattr(arguments, "figure", None) is not None:
        figure = gamma_against_epsilon(arguments, log_kappa)
        with files.replacing(arguments.figure) as file:
            figure.savefig(file, format="png", dpi=120)
        if not arguments.json:
            print(f"{'picture':<20}{arguments.figure}")


def _of_arguments(
    arguments: argparse.Namespace, log_kappa: float
) -> tuple[dict[str, Any], dp.ReRoBound]:
    """The result of a training that is said in options, and its bound.

    Raises: ValueError: something isn't said, or in two ways.
    """
    if arguments.command == "bound" and arguments.noise_multiplier is None:
        raise ValueError("Expected --noise-multiplier, or --from and a history.")
    batches = _batches(arguments)
    if arguments.command == "calibrate":
        found = _calibrated(arguments, batches, log_kappa)
        sigma, bound, epsilon = found.noise_multiplier, found.bound, found.epsilon
    else:
        sigma = arguments.noise_multiplier
        run = _run(arguments, sigma, batches)
        bound = dp.rero_bound(run, log_kappa=log_kappa)
        epsilon = accounting.epsilon(run, arguments.delta)
    result = {
        **_result(arguments, sigma, log_kappa, bound, epsilon),
        **_training(arguments, batches),
        **_assumed(arguments, sigma, batches, log_kappa),
        "notes": _notes(arguments, arguments.records),
    }
    return result, bound


def _history(arguments: argparse.Namespace) -> dp.History | None:
    """What `--from` names; None: it isn't given.

    Raises: ValueError: it isn't JSON, no history, or something is said twice.
    """
    if getattr(arguments, "history", None) is None:
        return None
    said = ("noise_multiplier", "steps", "sampling_probability", "sampling", "figure")
    for name in (*said, *_SCRIPT):
        if getattr(arguments, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} doesn't go with --from, which says it all.")
    try:
        text = arguments.history.read_text()
        values = json.loads(text, object_pairs_hook=_once)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"Expected {arguments.history} to be JSON, such as json.dump of"
            f" accountant.state_dict() writes it: {error}. Pickles are not read."
        ) from error
    return dp.History.of(values)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Raises FieldError: a field twice, of which one is ignored."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise checks.FieldError(twice, "Expected {} once, found it twice.")
    return found


def _of_history(
    arguments: argparse.Namespace, history: dp.History, log_kappa: float
) -> tuple[dict[str, Any], dp.ReRoBound]:
    """The result of a history, and its bound."""
    run = history.mechanism(arguments.relation)
    bound = dp.rero_bound(run, log_kappa=log_kappa)
    made, epsilon = dp.assumption(run), accounting.epsilon(run, arguments.delta)
    changed = ". Settings that changed in the course of training are at their worst"
    result = {
        **_result(arguments, history.noise_multiplier, log_kappa, bound, epsilon),
        **dataclasses.asdict(history),
        "assumption": made.text + (changed if history.changed else ""),
        "otherwise": _otherwise(arguments, made, log_kappa),
        "notes": _notes(arguments, history.records),
    }
    return result, bound


def _result(
    arguments: argparse.Namespace,
    sigma: float,
    log_kappa: float,
    bound: dp.ReRoBound,
    epsilon: float,
) -> dict[str, Any]:
    """What is said of every bound."""
    return {
        "noise_multiplier": sigma,
        "log_kappa": log_kappa,
        "log_gamma": float(bound.log_gamma),
        "gamma": float(bound.gamma),
        "by": str(bound.by),
        "log_gammas": {name: float(value) for name, value in bound.all.items()},
        "epsilon": epsilon,
        "delta": arguments.delta,
        "relation": arguments.relation,
    }


def _batches(arguments: argparse.Namespace) -> dp.Batches | None:
    """The training in the words of its script; None where it is said in steps.

    Raises: ValueError: said in both ways, or in neither.
    """
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


def _probability(arguments: argparse.Namespace) -> float:
    found = arguments.sampling_probability
    return 1.0 if found is None else found


def _training(
    arguments: argparse.Namespace, batches: dp.Batches | None
) -> dict[str, Any]:
    """What is reported of how batches are drawn."""
    if batches is None:
        return {
            "steps": arguments.steps,
            "sampling_probability": _probability(arguments),
        }
    shuffled = batches.sampling == "shuffled"
    return {
        "records": batches.records,
        "batch": batches.batch,
        "epochs": batches.epochs,
        "sampling": batches.sampling,
        "steps": batches.steps,
        "sampling_probability": None if shuffled else batches.sampling_probability,
    }


def _calibrated(
    arguments: argparse.Namespace, batches: dp.Batches | None, log_kappa: float
) -> "dp.Calibration":
    given = (
        {"steps": arguments.steps, "sampling_probability": _probability(arguments)}
        if batches is None
        else {"batches": batches}
    )
    return dp.calibrate(
        arguments.gamma,
        log_kappa=log_kappa,
        relation=arguments.relation,
        delta=arguments.delta,
        **given,
    )


def _assumed(
    arguments: argparse.Namespace,
    sigma: float,
    batches: dp.Batches | None,
    log_kappa: float,
) -> dict[str, Any]:
    """What the bound takes for granted of the batches, and what holds otherwise."""
    least = float(np.finfo(float).tiny)  # no noise at all has no mechanism
    run = _run(arguments, sigma or least, batches)
    made = dp.assumption(run) if batches is None else batches.assumption(run)
    otherwise = _otherwise(arguments, made, log_kappa)
    return {"assumption": made.text, "otherwise": otherwise}


def _otherwise(
    arguments: argparse.Namespace, made: dp.Assumption, log_kappa: float
) -> list[dict[str, Any]]:
    """What holds where the assumption doesn't."""
    rows = []
    for condition, mechanism in made.otherwise:
        bound = dp.rero_bound(mechanism, log_kappa=log_kappa)
        rows.append(
            {
                "if": condition,
                "log_gamma": float(bound.log_gamma),
                "gamma": float(bound.gamma),
                "epsilon": accounting.epsilon(mechanism, arguments.delta),
                "relation": mechanism.relation,
            }
        )
    return rows


def gamma_against_epsilon(
    arguments: argparse.Namespace, log_kappa: float
) -> "matplotlib.figure.Figure":
    """Bounds of several baselines over noise, drawn against epsilon."""
    import matplotlib.figure  # takes long, and only pictures need it

    checks.finite("noise_multiplier", arguments.noise_multiplier)
    kappas = np.array([log_kappa, *np.log(_KAPPAS)])
    centre = arguments.noise_multiplier
    points = []
    batches = _batches(arguments)
    for sigma in np.geomspace(centre / 16, centre * 16, _POINTS):
        run = _run(arguments, float(sigma), batches)
        if not isinstance(run, dp.Gaussian):
            run = dataclasses.replace(run, grid=poisson.COARSE)
        found = dp.rero_bound(run, log_kappa=kappas)
        points.append((accounting.epsilon(run, arguments.delta), found.gamma))
    epsilons = np.array([epsilon for epsilon, _ in points])
    gammas = np.stack([gamma for _, gamma in points])
    figure = matplotlib.figure.Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    names = [
        f"yours, log kappa = {log_kappa:.4g}",
        *(f"kappa = {k:g}" for k in _KAPPAS),
    ]
    for i, name in enumerate(names):
        style = {"linewidth": 2.5, "color": "black"} if i == 0 else {"linewidth": 1.2}
        axes.plot(epsilons, gammas[:, i], label=name, **style)
    axes.set_xscale("log")
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel(f"epsilon at delta = {arguments.delta:g}, {arguments.relation}")
    axes.set_ylabel("reconstruction succeeds at most so often")
    axes.legend(frameon=False)
    return figure


def _run(
    arguments: argparse.Namespace, sigma: float, batches: dp.Batches | None
) -> dp.Gaussian | dp.PoissonGaussian | dp.FixedSizeGaussian:
    if batches is not None:
        return batches.mechanism(noise_multiplier=sigma, relation=arguments.relation)
    return dp.PoissonGaussian(
        noise_multiplier=sigma,
        sampling_probability=_probability(arguments),
        steps=arguments.steps,
        relation=arguments.relation,
    )


def _notes(arguments: argparse.Namespace, records: int | None) -> list[str]:
    """What a number here doesn't say, a phrase each."""
    notes = []
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
    if arguments.prior is not None:
        notes.append(
            "kappa holds for the law of --prior alone. Pictures are far easier to guess"
            " than independent pixels; hold it against a sample (dp.priors.empirical)"
        )
    return notes


def _table(result: dict[str, Any], bound: dp.ReRoBound) -> str:
    """For people. Bounds that bound nothing aren't listed."""
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
    return "\n".join(lines)
