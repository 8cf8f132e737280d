"""What of a fitted estimator is replayed: its trees, classes, weights, seeds."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from sklearn.utils import compute_sample_weight

from artefacts.trees import bags, grown
from artefacts.trees.grown import Grown
from shadow.checks import FieldError

SINGLE = (
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "ExtraTreeClassifier",
    "ExtraTreeRegressor",
)
FORESTS = (
    "RandomForestClassifier",
    "RandomForestRegressor",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
)
BOOSTING = ("GradientBoostingClassifier", "GradientBoostingRegressor")


@dataclasses.dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted tree, forest or gradient boosting.

    Attributes:
      estimator: the fitted estimator, as it was handed in.
      parts: the estimator's own trees, in the order of the fit.
      trees: the same trees as arrays of nodes, in the same order.
      classes: (classes,), a classifier's classes in the order of its outputs; None: a
        regressor.
      boosting: whether trees were fitted to gradients, not to labels.
    """

    estimator: Any
    parts: list[Any]
    trees: list[Grown]
    classes: np.ndarray | None
    boosting: bool

    def weights(
        self,
        drawn: Int[np.ndarray, "trees rows"],
        encoded: Int[np.ndarray, " rows"] | None,
        given: Float[np.ndarray, " rows"] | None,
    ) -> Float[np.ndarray, "trees rows"]:
        """What each row weighs in each tree.

        Args:
          drawn: (trees, rows), how often each row was drawn for each tree.
          encoded: (rows,), the index of every row's class, the missing ones' included;
            None: a regressor.
          given: (rows,), sample weights as `fit` got them; None: it got none.
        """
        whole = drawn.astype(np.float64)
        kind = getattr(self.estimator, "class_weight", None)
        stored = getattr(self.estimator, "_sample_weight", None)
        bagged = getattr(self.estimator, "bootstrap", False)
        if kind == "balanced_subsample" and bagged:
            assert encoded is not None
            for row, counts in zip(whole, drawn, strict=True):
                indices = np.repeat(np.arange(len(counts)), counts)
                row *= compute_sample_weight("balanced", encoded, indices=indices)
            kind = None
        if bagged and bags.WEIGHTED:
            # Weights acted when rows were drawn.
            return whole
        if given is None and not self.by_class and stored is not None:
            return whole * stored
            # They are stored in the order of the training set, the missing row's
            # too.
        if given is not None:
            whole *= given
        if kind is not None:
            assert encoded is not None
            assert self.classes is not None
            kind = "balanced" if isinstance(kind, str) else kind
            whole *= compute_sample_weight(kind, self.classes[encoded])
        return whole

    @property
    def by_class(self) -> bool:
        """Whether rows' weights depend on their classes."""
        return getattr(self.estimator, "class_weight", None) is not None

    def encode(self, labels: np.ndarray) -> Int[np.ndarray, " rows"]:
        """Labels as indices of classes.

        Raises: FieldError: a label that isn't one of the classes.
        """
        assert self.classes is not None
        strange = np.setdiff1d(labels, self.classes)
        if len(strange):
            raise FieldError(
                "y_known",
                f"Expected {{}} among the estimator's classes {self.classes.tolist()},"
                f" found {strange.tolist()[:5]}.",
            )
        return np.searchsorted(self.classes, labels)


def read(estimator: Any) -> Fitted:
    """The trees of a fitted estimator.

    Raises: FieldError: not fitted, several outputs, or stopped early on a part of the
      rows that only the seed tells.
    """
    name = type(estimator).__name__
    single = name in SINGLE
    if not hasattr(estimator, "tree_" if single else "estimators_"):
        raise FieldError("estimator", f"Expected a fitted {name}; call its fit first.")
    if getattr(estimator, "n_outputs_", 1) != 1:
        raise FieldError("estimator", f"Expected {name} with one output.")
    boosting = name in BOOSTING
    if boosting and estimator.n_iter_no_change is not None:
        raise FieldError(
            "estimator",
            f"{name} with n_iter_no_change holds rows out for validation: it isn't"
            " replayed.",
        )
    if single:
        parts = [estimator]
    elif boosting:
        parts = list(estimator.estimators_.ravel())
    else:
        parts = list(estimator.estimators_)
    seeds: list[Any] = [getattr(part, "random_state", None) for part in parts]
    if name in FORESTS:
        seeds = list(bags.tree_seeds(estimator) or seeds)
    trees = [
        grown.of_tree(part.tree_, midpoints=part.splitter == "best", seed=seed)
        for part, seed in zip(parts, seeds, strict=True)
    ]
    classes = getattr(estimator, "classes_", None)
    return Fitted(
        estimator,
        parts,
        trees,
        None if classes is None else np.asarray(classes),
        boosting,
    )
