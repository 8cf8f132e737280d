"""Section II-C: the upper half of the target is known, the lower one is asked for."""

import numpy as np

import dp
from benchmarks.papers.balle.common import CALLED, grid, number
from benchmarks.papers.balle.factors import default
from benchmarks.papers.lab import Lab, Run
from benchmarks.papers.row import Found, Line, Picture, measures
from dp import priors, rates
from informed import metrics
from informed.experiment import stored
from informed.experiment.named import NamedAttack
from shadow.known import Known, rows_of

_KNOWN = 14  # of 28 rows
# For 392 known pixels, validation models are what their errors are learned from: a
# fifth of all, where 5 % would be 300. Chosen before anything was measured.
_KERNEL = {"validation_fraction": 0.2}
_SHOWN = 8
# Thresholds at which attack and bound are compared: quantiles of the error of the
# conditional mean on the adversary's own images.
_QUANTILES = (0.01, 0.1, 0.5)
_EPSILONS = ("epsilon 10", "epsilon 100")


def _attacks(*, exact: bool) -> dict[str, NamedAttack]:
    """Mean image and kernel with and without what is known; inversion with."""
    found = {
        "mean_image": NamedAttack.of("mean_image"),
        "mean_image_known": NamedAttack.of("mean_image", known=_KNOWN),
        "kernel": NamedAttack.of("kernel", **_KERNEL),
        "kernel_known": NamedAttack.of("kernel", known=_KNOWN, **_KERNEL),
    }
    if exact:
        found["inversion_known"] = NamedAttack.of("inversion", targets=3, known=_KNOWN)
    return found


def _lower(images: np.ndarray) -> np.ndarray:
    return images[:, _KNOWN:]


def _inferred(run: Run, attack: str) -> float:
    """MSE of the lower half alone."""
    guesses = run.guesses(attack)
    truth = run.truth.images[: len(guesses)]
    return float(metrics.mse(_lower(truth), _lower(guesses)).mean())


def _line(run: Run, name: str) -> Line:
    ours: dict[str, float | str | None] = {
        "mean image": _inferred(run, "mean_image"),
        "mean image, half known": _inferred(run, "mean_image_known"),
        "kernel": _inferred(run, "kernel"),
        "kernel, half known": _inferred(run, "kernel_known"),
    }
    if "inversion_known" in run.results["attacks"]:
        found = run.results["attacks"]["inversion_known"]
        ours["inversion, half known"] = found["mse_of_unknown"]
        ours["certified exact"] = f"{found['certified']} of {found['targets']}"
    return Line(name=name, ours=ours)


def _against_bound(run: Run) -> tuple[list[Line], bool]:
    """Shares of targets within a distance, beside the bound; whether all are below."""
    images = np.concatenate(
        [run.shadows.array("fixed_images"), stored.targets(run.shadows).images]
    ).astype(np.float64)
    mask = rows_of(images.shape[1:], _KNOWN)
    centred = images - images.mean(axis=0)
    told = Known.of(images, mask)
    mean = np.broadcast_to(images.mean(axis=0), images.shape)
    own = told.completed(mean, centred)
    distances = np.sqrt(np.sum((own - images) ** 2, axis=(1, 2, 3)))
    covariance = np.cov(images.reshape(len(images), -1), rowvar=False)
    privacy = run.experiment.training.privacy
    mechanism = dp.Gaussian(
        noise_multiplier=privacy.noise_multiplier,
        steps=run.experiment.training.epochs,
        relation="zero_out",
    )
    truth, lines, below = run.truth.images, [], True
    for quantile in _QUANTILES:
        eta = float(np.quantile(distances, quantile))
        log_kappa = priors.gaussian_given(
            eta, covariance=covariance, known=np.flatnonzero(mask.ravel())
        )
        kappa = float(np.exp(log_kappa))
        shares = {}
        for attack in ("mean_image_known", "kernel_known"):
            apart = run.guesses(attack) - truth
            shares[attack] = int(
                (np.sqrt(np.sum(apart**2, axis=(1, 2, 3))) <= eta).sum()
            )
        # Digits aren't normal: the baseline is the larger of the normal prior's and of
        # what the conditional mean image attains on the adversary's own images.
        base = max(kappa, quantile)
        gamma = float(dp.rero_bound(mechanism, kappa=base).gamma)
        least = rates.clopper_pearson(shares["kernel_known"], len(truth), 0.95)[0]
        below &= least <= gamma
        lines.append(
            Line(
                name=f"{run.name}, within {eta:.2f}",
                ours={
                    "kappa, normal prior": kappa,
                    "mean image, share": shares["mean_image_known"] / len(truth),
                    "kernel, share": shares["kernel_known"] / len(truth),
                    "bound gamma": gamma,
                },
            )
        )
    return lines, below


@measures("balle/attribute-inference")
def attributes(lab: Lab) -> Found:
    """Without noise, and at two epsilons beside the bound."""
    run = lab.playing(default(lab), "half known", _attacks(exact=True))
    lines, bounded = [_line(run, "no noise")], True
    for private in lab.sweep("privacy", only=lambda name: name in _EPSILONS):
        known = lab.playing(private, "half known", _attacks(exact=False))
        lines.append(_line(known, private.name))
        found, below = _against_bound(known)
        lines += found
        bounded &= below
    exact = run.results["attacks"]["inversion_known"]
    with_, without = (_inferred(run, f"mean_image{each}") for each in ("_known", ""))
    kernel, plain = (_inferred(run, f"kernel{each}") for each in ("_known", ""))
    truth = run.truth.images[:_SHOWN]
    rows = {
        "target": truth,
        "mean image,\nhalf known": run.guesses("mean_image_known")[:_SHOWN],
        f"{CALLED['kernel']},\nhalf known": run.guesses("kernel_known")[:_SHOWN],
    }
    return Found(
        holds=exact["certified"] == exact["targets"] and bounded and kernel < with_,
        verdict=f"Inversion certifies {exact['certified']} of {exact['targets']}. On"
        f" the unknown half the kernel has {number(kernel)} ({number(plain)} without"
        f" knowing the other half), the mean image {number(with_)} ({number(without)})."
        f" Private models stay {'below' if bounded else 'above'} the bound.",
        theirs="reconstruction of the rest by an adversary who knows a part; no number",
        ours=f"kernel {number(kernel)}, mean image {number(with_)}; inversion"
        f" {exact['certified']} of {exact['targets']} exact",
        lines=lines,
        pictures=[Picture(grid(rows, {}), "The first targets; 14 of 28 rows known.")],
    )
