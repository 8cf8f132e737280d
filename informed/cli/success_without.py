"""Say on the command line how often the best guess succeeds without the release.

--kappa 0.01, --log-kappa -7.5, or --prior gaussian --dim 784 --sigma 0.3 --mse 0.0232
"""

import argparse
import math

from dp import checks

# What says how large each prior is, beside --dim and --mse.
_PRIORS: dict[str, tuple[str, ...]] = {
    "gaussian": ("sigma",),
    "ball": ("radius",),
    "cube": (),
    "sphere": ("radius",),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the three ways in which it may be said."""
    group = parser.add_argument_group(
        "success without the release", "one of --kappa, --log-kappa and --prior"
    )
    group.add_argument(
        "--kappa",
        type=float,
        help="how often the best guess succeeds without the release, given all else"
        " that is known",
    )
    group.add_argument("--log-kappa", type=float, help="its natural logarithm")
    group.add_argument(
        "--prior",
        choices=_PRIORS,
        help="a law of the target in place of kappa; needs --dim and --mse",
    )
    group.add_argument("--dim", type=int, help="pixels times channels of the target")
    group.add_argument(
        "--sigma", type=float, help="standard deviation of a pixel, --prior gaussian"
    )
    group.add_argument(
        "--radius", type=float, help="of --prior ball and sphere (default 1)"
    )
    group.add_argument(
        "--mse", type=float, help="mean squared error a pixel that counts as success"
    )


def log_kappa(arguments: argparse.Namespace) -> float:
    """Return log kappa, as it is given or from a prior.

    Raises: ValueError: not exactly one of the three ways, a prior without its sizes, or
      a size that the way doesn't use.
    """
    ways = [
        name
        for name in ("kappa", "log-kappa", "prior")
        if getattr(arguments, name.replace("-", "_")) is not None
    ]
    if len(ways) != 1:
        raise ValueError("Expected exactly one of --kappa, --log-kappa and --prior.")
    taken = ("dim", "mse", *_PRIORS[arguments.prior]) if arguments.prior else ()
    for name in ("dim", "mse", "sigma", "radius"):
        if name not in taken and getattr(arguments, name) is not None:
            way = f"--prior {arguments.prior}" if arguments.prior else f"--{ways[0]}"
            raise ValueError(f"{way} takes no --{name}.")
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
    from dp import priors  # scipy.stats takes half a second to import

    d = arguments.dim
    radius = 1.0 if arguments.radius is None else arguments.radius
    checks.finite_above("--radius", radius, 0)
    eta = priors.l2_of_mse(arguments.mse, d)
    if arguments.prior == "gaussian":
        return float(priors.gaussian(eta, d=d, sigma=arguments.sigma))
    if arguments.prior == "ball":
        return float(priors.ball(eta, d=d, radius=radius))
    if arguments.prior == "cube":
        return float(priors.cube(eta, d=d))
    return float(priors.sphere(eta / radius, d=d))
