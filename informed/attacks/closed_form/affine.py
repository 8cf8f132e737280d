"""The closed-form attack on models of one dense layer that the toolkit itself trained.

Runs play it as `glm`. THREAT: knows the known records D_- and the training algorithm A.
The release is at the optimum of the penalised loss, so Theorem 1 (`theorems`) applies,
whatever initialisation and optimiser were. If training stopped short of it, the
remaining gradient is attributed to the target.
"""

import numpy as np
from jaxtyping import Array

from informed.attacks.attack_row import Material, NoSettings
from informed.attacks.closed_form.theorems import reconstruct_softmax
from informed.attacks.impossible import ReconstructionImpossibleError
from shadow import checks
from shadow.threat import Attack, Knowledge, Reconstruction, Release
from shadow.training import GradientDescent


def make(config: NoSettings, material: Material) -> Attack:
    """Build the attack for the registry."""
    return glm


def glm(release: Release, knowledge: Knowledge, *, key: Array) -> Reconstruction:
    """Reconstruct the target of every release; needs fixed and algorithm.

    Returns: images and labels; residuals: a lower bound on the relative error,
      squared. A release that doesn't determine its target gets D_-'s mean image.
    Raises: FieldError: A isn't gradient descent on an affine victim, or decays
      weights inside its optimiser.
    """
    knowledge.require(release, "fixed", "algorithm")
    fixed, algorithm = knowledge.fixed, knowledge.algorithm
    assert fixed is not None
    parts = {}
    if isinstance(algorithm, GradientDescent):
        parts = {part.name: part for part in algorithm.victim.layout}
    if set(parts) != {"output/b", "output/w"}:
        raise checks.FieldError(
            "algorithm",
            "Expected {} to be gradient descent on an affine victim: others have no"
            " closed form.",
        )
    assert isinstance(algorithm, GradientDescent)
    algorithm.require_plain_penalty()
    known = fixed.images.reshape(len(fixed), -1)
    penalty = algorithm.weight_decay * (len(fixed) + 1)
    # Sliced by hand, so that float64 weights stay float64.
    w, b = parts["output/w"], parts["output/b"]
    images, labels, residuals = [], [], []
    for theta in release.weights:
        try:
            target = reconstruct_softmax(
                theta[w.start : w.stop].reshape(w.shape).T,
                theta[b.start : b.stop],
                known,
                fixed.labels,
                penalty=penalty,
                penalise_intercepts=True,
            )
        except ReconstructionImpossibleError:
            images.append(known.mean(axis=0))
            labels.append(int(np.bincount(fixed.labels).argmax()))
            residuals.append(np.inf)
            continue
        assert target.implied_error is not None
        images.append(target.x)
        labels.append(int(target.y))
        residuals.append(target.implied_error**2)
    shape = (len(release), *fixed.image_shape)
    return Reconstruction(
        images=np.reshape(images, shape).astype(np.float32),
        labels=np.array(labels),
        residuals=np.array(residuals),
    )
