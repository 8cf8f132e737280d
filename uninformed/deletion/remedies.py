"""What a service can do instead: batches, noise, another seed."""

from collections.abc import Callable

import numpy as np

from uninformed.deletion import measures
from uninformed.deletion.config import DeletionConfig
from uninformed.deletion.data import Sides
from uninformed.deletion.services import NetworkService, Service

# The attack: from a difference of two models (params,) to a row (inputs,).
ReadRow = Callable[[np.ndarray], np.ndarray]
# Control deletions, and largest number of batches that are deleted; each batch is a
# training of its own.
_DRAWS = 20


def batches(
    config: DeletionConfig, service: Service, sides: Sides, read: ReadRow
) -> dict[str, dict[str, float] | None]:
    """Several rows deleted by one retraining: the guess against the nearest of them.

    Returns: numbers by size; None of a size that there are too few rows for.
    """
    generator = np.random.default_rng(config.seed + 1)
    of_nobody = np.random.default_rng(config.seed + 4)
    made: dict[str, dict[str, float] | None] = {}
    for size in config.batches:
        if size > min(len(sides.service) // 4, len(sides.held_out)):
            made[str(size)] = None
            continue
        found = []
        for _ in range(min(len(sides.targets), _DRAWS)):
            gone = generator.choice(len(sides.service), size, replace=False)
            guess = read(service.without(gone, "retrain") - service.theta)
            near = [measures.cosine(guess, sides.service.x[row]) for row in gone]
            # The nearest of as many rows of nobody's: chance grows with their number.
            rows = of_nobody.choice(len(sides.held_out), size, replace=False)
            nobody = [measures.cosine(guess, sides.held_out.x[row]) for row in rows]
            found.append((max(near), float(np.mean(near)), max(nobody)))
        control = _control(config, sides, size)
        made[str(size)] = {
            "nearest": _median([each[0] for each in found]),
            "mean": _median([each[1] for each in found]),
            "nearest_of_nobodys": _median([each[2] for each in found]),
            "by_the_average": control,
        }
    return made


def _control(config: DeletionConfig, sides: Sides, size: int) -> float:
    """The cosine of the mean public row with the nearest of as many rows."""
    generator = np.random.default_rng(config.seed + 2)
    mean = measures.average(sides.public)
    found = []
    for _ in range(_DRAWS):
        gone = generator.choice(len(sides.service), size, replace=False)
        found.append(max(measures.cosine(mean, sides.service.x[row]) for row in gone))
    return _median(found)


def noise(
    config: DeletionConfig,
    service: Service,
    sides: Sides,
    read: ReadRow,
    without: dict[int, np.ndarray],
) -> dict[str, dict[str, float]]:
    """Gaussian noise on both models, drawn anew for each; the attack, and the score."""
    generator = np.random.default_rng(config.seed + 3)
    made = {}
    for level in config.noise:
        cosines, scores = [], []
        for target, theta in without.items():
            difference = theta - service.theta
            sigma = level * float(np.sqrt((difference**2).mean()))
            first, second = sigma * generator.normal(size=(2, len(theta)))
            guess = read(difference + second - first)
            cosines.append(measures.cosine(guess, sides.service.x[target]))
            scores.append(service.score(theta + second, sides.held_out))
        made[f"{level:g}"] = {"cosine": _median(cosines), "score": _median(scores)}
    return made


def other_seed(
    service: NetworkService, sides: Sides, read: ReadRow, targets: np.ndarray
) -> dict[str, float]:
    """The attack where the network is trained anew from another initialisation."""
    cosines = []
    for target in targets:
        stay = sides.service.without(int(target))
        theta = service.trained(stay, service.seed + 1)
        guess = read(theta - service.theta)
        cosines.append(measures.cosine(guess, sides.service.x[target]))
    return {"cosine": _median(cosines)}


def _median(values: list[float]) -> float:
    return float(np.median(values))
