"""How often the best guess succeeds without the release, on the command line.

--kappa 0.01, --log-kappa -7.5, or --prior gaussian --dim 784 --sigma 0.3 --mse 0.0232
"""

import argparse
import math

_PRIORS = ("gaussian", "ball", "cube", "sphere")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The three ways in which it may be said."""
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
        "--radius", type=float, default=1.0, help="of ball and sphere (default 1)"
    )
    group.add_argument(
        "--mse", type=float, help="mean squared error a pixel that counts as success"
    )


def log_kappa(arguments: argparse.Namespace) -> float:
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
    from dp import priors  # scipy.stats takes half a second to import

    d = arguments.dim
    eta = priors.l2_of_mse(arguments.mse, d)
    if arguments.prior == "gaussian":
        return float(priors.gaussian(eta, d=d, sigma=arguments.sigma))
    if arguments.prior == "ball":
        return float(priors.ball(eta, d=d, radius=arguments.radius))
    if arguments.prior == "cube":
        return float(priors.cube(eta, d=d))
    return float(priors.sphere(eta / arguments.radius, d=d))
