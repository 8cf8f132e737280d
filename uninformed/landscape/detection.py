"""Test whether an adversary can recognise recovered training images, by ROC curves.

`study` calls it. Attacks end at many images, some of which are recovered training
images and most are not. An uninformed adversary can compute three scores of an image:

parameters  misfit of the run's images, such as the distance of weights trained on them
            from released theta*
loss        loss of theta* at the image
span        share of the image outside the span of the first layer's weights, where
            weight decay leaves only combinations of the training images

An informed adversary retrains an affine victim with a guess and compares parameters.
Only for a true image do all digits of the parameters agree.

Source: the question is that of Runkel et al. 2024, Section 5; the scores are ours,
except `parameters`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.metrics import roc_auc_score

from informed.attacks import closed_form
from uninformed import bilevel
from uninformed.landscape.mixtures import Sets, holds_truth
from uninformed.landscape.runs import Outcomes

# Draws of the bootstrap: the 2.5 % quantile then lies between the fifth and sixth draw.
_BOOTSTRAPS = 200


@dataclasses.dataclass(frozen=True, eq=False)
class DetectionScores:
    """One score of many images, larger for images more like training images.

    An image is `true` if it is a recovered training image, and `trivial` if it started
    from a mixture with a share of it. A `cluster` has the images from one start, which
    aren't independent.
    """

    values: Float[np.ndarray, " images"]
    true: Bool[np.ndarray, " images"]
    trivial: Bool[np.ndarray, " images"]
    cluster: Int[np.ndarray, " images"]

    def summary(self) -> dict[str, Any]:
        """Compute the AUC over all images, and over those not started from the truth.

        It is None if there is only one kind of image. 1/2 is guessing. The 95 %
        interval is the bootstrap's over clusters.
        """
        rest = ~self.trivial
        return {
            "auc": _auc(self.true, self.values),
            "auc_95": self._interval(np.ones_like(rest)),
            "auc_not_begun_at_truth": _auc(self.true[rest], self.values[rest]),
            "auc_not_begun_at_truth_95": self._interval(rest),
            "clusters": len(np.unique(self.cluster)),
            "true": int(self.true.sum()),
            "true_not_begun_at_truth": int(self.true[rest].sum()),
            "images": len(self.true),
        }

    def _interval(self, counted: np.ndarray) -> list[float] | None:
        """Bootstrap the 95 % interval of the counted images' AUC over clusters."""
        rng = np.random.default_rng(0)
        members = [
            rows
            for number in np.unique(self.cluster)
            if len(rows := np.flatnonzero((self.cluster == number) & counted))
        ]
        drawn = []
        for _ in range(_BOOTSTRAPS):
            chosen = rng.integers(0, max(1, len(members)), len(members))
            rows = np.concatenate([np.zeros(0, int), *(members[i] for i in chosen)])
            auc = _auc(self.true[rows], self.values[rows])
            if auc is not None:
                drawn.append(auc)
        if len(drawn) < _BOOTSTRAPS // 2:
            return None
        return [round(float(q), 3) for q in np.quantile(drawn, [0.025, 0.975])]


def _auc(true: np.ndarray, values: np.ndarray) -> float | None:
    if not len(true) or true.all() or not true.any():
        return None
    return round(float(roc_auc_score(true, values)), 3)


def uninformed(
    names: Sequence[str], outcomes: Outcomes, true: Bool[np.ndarray, "starts images"]
) -> dict[str, DetectionScores]:
    """Compute each score of an uninformed adversary for one method, by name."""
    values = {
        "parameters": np.repeat(-outcomes.distance[:, None], true.shape[1], axis=1),
        "loss": -outcomes.loss,
    }
    if outcomes.basis is not None and len(outcomes.basis) > 1:
        # The share of each image's length outside the first layer's span.
        points = (
            outcomes.images.reshape(*outcomes.images.shape[:2], -1) - outcomes.centre
        )
        inside = np.linalg.norm(points @ outcomes.basis.T, axis=-1)
        total = np.maximum(np.linalg.norm(points, axis=-1), np.finfo(np.float32).tiny)
        values["span"] = -np.sqrt(np.maximum(1 - (inside / total) ** 2, 0))
    cluster = np.repeat(np.arange(len(true)), true.shape[1])
    trivial = np.array([holds_truth(name) for name in names])[cluster]
    return {
        score: DetectionScores(
            value.astype(np.float64).ravel(), true.ravel(), trivial, cluster
        )
        for score, value in values.items()
    }


def informed(
    sets: Sets, starts: Mapping[str, np.ndarray], decay: float
) -> DetectionScores:
    """Return scores by the distance after retraining, each image in turn the target.

    An informed adversary knows the other images, and theta of an affine victim. The
    true image is the closed form's solution; false ones are the starts, and held-out
    images in the target's place.
    """
    count = len(sets.truth)
    flat = sets.truth.reshape(count, -1).astype(np.float64)
    signs = sets.signs.astype(np.float64)
    rows = []
    others = sets.held_out[:count].reshape(count, -1)
    with jax.enable_x64(True):
        points, targets = jnp.asarray(flat), jnp.asarray(signs)
        released = np.asarray(bilevel.ridge(points, targets, decay))

        def distance(claim: jax.Array, target: jax.Array) -> jax.Array:
            claimed = points.at[target].set(claim)
            theta = bilevel.ridge(claimed, targets, decay)
            return jnp.sum((theta - released) ** 2)

        distances = jax.jit(jax.vmap(distance, (0, None)))
        for target in range(count):
            known = np.arange(count) != target
            solution = closed_form.reconstruct_glm(
                released[:-1],
                float(released[-1]),
                flat[known],
                signs[known],
                link="identity",
                penalty=decay * count,
                intercept_penalty=decay * count,
            )
            false = [
                images[target].ravel()
                for name, images in starts.items()
                if name != "truth"
            ]
            claims = np.stack([solution.x, *false, *others])
            rows.append(-np.asarray(distances(jnp.asarray(claims), target)))
    values = np.stack(rows)
    cluster, claim = (numbers.ravel() for numbers in np.indices(values.shape))
    trivial = np.zeros(values.size, bool)
    return DetectionScores(values.ravel(), claim == 0, trivial, cluster)


def gap(scores: DetectionScores) -> dict[str, float]:
    """Return the largest distance for true images and the smallest for false ones."""
    return {
        "largest_true": float(-scores.values[scores.true].min()),
        "smallest_false": float(-scores.values[~scores.true].max()),
    }
