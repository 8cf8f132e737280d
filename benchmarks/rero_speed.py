"""Time of one reconstruction bound and one calibration, one JSON line.

    python -m benchmarks.rero_speed
    pip install riskcal          adds its calibration, of the same run

The bound: sigma 1, q 0.01, T 1,000, kappa 1e-3. The calibration: the least sigma with
gamma <= 0.01 there. Nothing is remembered from one to the other. riskcal's answer is
the side of the root that misses the target (`riskcal_gamma` is ours, at its sigma).
"""

import importlib.util
import json
import time
from typing import Any

import dp
from dp import poisson

STEPS, PROBABILITY, KAPPA, GAMMA = 1000, 0.01, 1e-3, 0.01


def run(sigma: float) -> dp.PoissonGaussian:
    """The run of a noise multiplier."""
    return dp.PoissonGaussian(
        noise_multiplier=sigma,
        sampling_probability=PROBABILITY,
        steps=STEPS,
        relation="zero_out",
    )


def main() -> None:
    """Measure and print."""
    dp.rero_bound(run(5.0), kappa=0.5)  # imports, warms up
    _forget()
    start = time.perf_counter()
    bound = dp.rero_bound(run(1.0), kappa=KAPPA)
    result: dict[str, Any] = {
        "bound_s": round(time.perf_counter() - start, 2),
        "gamma": float(bound.gamma),
    }
    _forget()
    start = time.perf_counter()
    found = dp.calibrate(
        GAMMA,
        kappa=KAPPA,
        steps=STEPS,
        sampling_probability=PROBABILITY,
        relation="zero_out",
    )
    result["calibration_s"] = round(time.perf_counter() - start, 2)
    result["noise_multiplier"] = found.noise_multiplier
    if importlib.util.find_spec("riskcal"):
        from riskcal import calibration

        start = time.perf_counter()
        sigma = calibration.dpsgd.find_noise_multiplier_for_err_rates(
            alpha=KAPPA, beta=1 - GAMMA, sample_rate=PROBABILITY, num_steps=STEPS
        )
        result["riskcal_calibration_s"] = round(time.perf_counter() - start, 2)
        result["riskcal_noise_multiplier"] = float(sigma)
        result["riskcal_gamma"] = float(dp.rero_bound(run(sigma), kappa=KAPPA).gamma)
    print(json.dumps(result))


def _forget() -> None:
    poisson._losses.cache_clear()
    poisson._curve_of.cache_clear()


if __name__ == "__main__":
    main()
