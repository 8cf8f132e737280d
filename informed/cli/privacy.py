"""`informed bound` and `informed calibrate`: reconstruction bounds on the command line.

    informed bound --noise-multiplier 1 --steps 100 --kappa 1e-3
    informed bound --noise-multiplier 1 --steps 1000 --sampling-probability 0.01 \\
        --prior gaussian --dim 784 --sigma 0.3 --mse 0.0232
    informed calibrate --gamma 0.01 --steps 100 --kappa 1e-3
"""

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np

import dp
from dp import accounting, bounds, poisson, priors
from shadow import files

COMMANDS = {
    "bound": "how often reconstruction can succeed, given the noise of training",
    "calibrate": "the least noise that keeps reconstruction below a probability",
}
_PRIORS = ("gaussian", "ball", "cube", "sphere")
_KAPPAS = (0.1, 1e-3, 1e-6)
_POINTS = 25


def add_parsers(commands: Any, epilog: Callable[[str], str]) -> None:
    """Both commands, with their arguments.

    Args:
      epilog: command -> what its help ends with.
    """
    for name, text in COMMANDS.items():
        parser = commands.add_parser(
            name,
            help=text,
            description=text,
            epilog=epilog(name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == "bound":
            parser.add_argument("--noise-multiplier", type=float, required=True)
            parser.add_argument(
                "--figure", type=Path, help="gamma against epsilon, as a picture"
            )
        else:
            parser.add_argument("--gamma", type=float, required=True, help="allowed")
        parser.add_argument("--steps", type=int, required=True)
        parser.add_argument(
            "--sampling-probability",
            type=float,
            default=1.0,
            help="of each example in each step; counts only while nobody is told who"
            " takes part when (else leave it out, and give a record's own --steps)",
        )
        parser.add_argument(
            "--relation",
            default="zero_out",
            choices=bounds.RELATIONS,
            help="zero_out (default) is always valid for reconstruction",
        )
        parser.add_argument(
            "--kappa",
            type=float,
            help="success without the release, given all else that is known",
        )
        parser.add_argument("--log-kappa", type=float, help="its natural logarithm")
        parser.add_argument("--prior", choices=_PRIORS, help="in place of kappa")
        parser.add_argument("--dim", type=int, help="pixels times channels")
        parser.add_argument("--sigma", type=float, help="of --prior gaussian, a pixel")
        parser.add_argument("--radius", type=float, default=1.0, help="of ball, sphere")
        parser.add_argument("--mse", type=float, help="error that counts as success")
        parser.add_argument("--delta", type=float, default=1e-5, help="for epsilon")
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--debug", action="store_true", help="show tracebacks")


def execute(arguments: argparse.Namespace) -> None:
    """Run one of `COMMANDS` and print what it has to say."""
    log_kappa = baseline(arguments)
    given = {"steps": arguments.steps, "relation": arguments.relation}
    if arguments.command == "calibrate":
        found = dp.calibrate(
            arguments.gamma,
            log_kappa=log_kappa,
            sampling_probability=arguments.sampling_probability,
            delta=arguments.delta,
            **given,
        )
        sigma, bound, epsilon = found.noise_multiplier, found.bound, found.epsilon
    else:
        run = _run(arguments.noise_multiplier, arguments.sampling_probability, **given)
        bound = dp.rero_bound(run, log_kappa=log_kappa)
        sigma, epsilon = arguments.noise_multiplier, _epsilon(run, arguments.delta)
    result = {
        "noise_multiplier": sigma,
        "log_kappa": log_kappa,
        "log_gamma": float(bound.log_gamma),
        "gamma": float(bound.gamma),
        "by": str(bound.by),
        "log_gammas": {name: float(value) for name, value in bound.all.items()},
        "epsilon": epsilon,
        "delta": arguments.delta,
        "sampling_probability": arguments.sampling_probability,
        **given,
    }
    if arguments.json:
        finite = {k: _finite(v) for k, v in result.items()}
        print(json.dumps(finite, allow_nan=False))
    else:
        print(_table(result, bound))
    if getattr(arguments, "figure", None) is not None:
        figure = gamma_against_epsilon(arguments, log_kappa)
        with files.replacing(arguments.figure) as file:
            figure.savefig(file, format="png", dpi=120)
        if not arguments.json:
            print(f"{'picture':<20}{arguments.figure}")


def baseline(arguments: argparse.Namespace) -> float:
    """log kappa, given or from a prior.

    Raises: ValueError: not exactly one of the three ways, or a prior without its sizes.
    """
    given = [arguments.kappa, arguments.log_kappa, arguments.prior]
    if sum(value is not None for value in given) != 1:
        raise ValueError("Expected exactly one of --kappa, --log-kappa and --prior.")
    if arguments.log_kappa is not None:
        return arguments.log_kappa
    if arguments.kappa is not None:
        if not 0 < arguments.kappa <= 1:
            raise ValueError(f"Expected --kappa in (0, 1], got {arguments.kappa!r}.")
        return math.log(arguments.kappa)
    if arguments.dim is None or arguments.mse is None:
        raise ValueError(f"--prior {arguments.prior} needs --dim and --mse.")
    if arguments.prior == "gaussian" and arguments.sigma is None:
        raise ValueError("--prior gaussian needs --sigma.")
    d = arguments.dim
    eta = priors.l2_of_mse(arguments.mse, d)
    if arguments.prior == "gaussian":
        return float(priors.gaussian(eta, d=d, sigma=arguments.sigma))
    if arguments.prior == "ball":
        return float(priors.ball(eta, d=d, radius=arguments.radius))
    if arguments.prior == "cube":
        return float(priors.cube(eta, d=d))
    return float(priors.sphere(eta / arguments.radius, d=d))


def gamma_against_epsilon(
    arguments: argparse.Namespace, log_kappa: float
) -> matplotlib.figure.Figure:
    """Bounds of several baselines over noise, drawn against epsilon."""
    kappas = np.array([log_kappa, *np.log(_KAPPAS)])
    centre = arguments.noise_multiplier
    points = []
    for sigma in np.geomspace(centre / 16, centre * 16, _POINTS):
        run = _run(
            float(sigma),
            arguments.sampling_probability,
            steps=arguments.steps,
            relation=arguments.relation,
            grid=poisson.COARSE,
        )
        found = dp.rero_bound(run, log_kappa=kappas)
        points.append((_epsilon(run, arguments.delta), found.gamma))
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
    sigma: float,
    sampling_probability: float,
    *,
    steps: int,
    relation: str,
    grid: float = poisson.FINE,
) -> dp.PoissonGaussian:
    return dp.PoissonGaussian(
        noise_multiplier=sigma,
        sampling_probability=sampling_probability,
        steps=steps,
        relation=relation,
        grid=grid,
    )


def _epsilon(run: dp.PoissonGaussian, delta: float) -> float:
    """Under its relation; that of full batches where sampling isn't accounted for."""
    if run.relation == "replace_one":
        full = dp.Gaussian(
            noise_multiplier=run.noise_multiplier,
            steps=run.steps,
            relation=run.relation,
        )
        return accounting.epsilon(full, delta)
    return accounting.epsilon(run, delta)


def _finite(value: Any) -> Any:
    """JSON knows no infinity: None."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _table(result: dict[str, Any], bound: dp.ReRoBound) -> str:
    """For people."""
    lines = [f"{'noise multiplier':<20}{result['noise_multiplier']:.6g}"]
    lines.append(f"{'reconstruction':<20}{bound}")
    for name, value in result["log_gammas"].items():
        if name != result["by"]:
            lines.append(f"{'':<20}{math.exp(value):.4g} by {name}")
    lines.append(
        f"{'membership':<20}epsilon {result['epsilon']:.4g} at delta"
        f" {result['delta']:g} ({result['relation']})"
    )
    return "\n".join(lines)
