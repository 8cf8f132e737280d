"""Incomplete gamma and beta functions, in log space where they underflow."""

import math

import numpy as np
from scipy import special


def log_gammainc(a: float, log_x: float) -> float:
    """Log of the regularised lower incomplete gamma function, from log x."""
    if math.isinf(log_x) and log_x < 0:
        return -math.inf
    if log_x >= math.log(a + 1):
        return math.log1p(-special.gammaincc(a, np.exp(min(log_x, 700.0))))
    x = math.exp(log_x)
    # x^a e^-x / Gamma(a + 1) times 1 + x/(a+1) + x^2/((a+1)(a+2)) + ...
    term = total = 1.0
    k = 0
    while term > 1e-17 * total:
        k += 1
        term *= x / (a + k)
        total += term
    return a * log_x - x - special.gammaln(a + 1) + math.log(total)


def log_betainc(a: float, b: float, log_x: float) -> float:
    """Log of the regularised incomplete beta function, also where it underflows.

    From log x; a term is left out where x underflows, which is less than rounding.
    """
    x = math.exp(log_x)
    value = special.betainc(a, b, x)
    if value > 1e-250:
        return math.log(value)
    if math.isinf(log_x):
        return -math.inf
    # x^a (1-x)^b / (a B(a, b)) times a hypergeometric series with positive terms.
    term = total = 1.0
    k = 0
    while term > 1e-17 * total:
        term *= x * (a + b + k) / (a + 1 + k)
        total += term
        k += 1
    return float(
        a * log_x
        + b * math.log1p(-x)
        - math.log(a)
        - special.betaln(a, b)
        + math.log(total)
    )
