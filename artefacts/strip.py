"""What can be stripped from which estimator, and whether that hides anything: a table.

`gone` lists fields that predictions don't use, with what an adversary who knows all
other rows loses by it; `kept` names a field that has to stay and still tells. `strip`
does what the table says of one estimator, in place. Estimators whose nodes are arrays
in C, and a few others, have a function of their own.
"""

import dataclasses
from typing import Any

import numpy as np

from artefacts import registry
from artefacts.findings import Removed
from artefacts.glm.objectives import OBJECTIVES
from artefacts.registry import register
from artefacts.trees.fitted import BOOSTING, FORESTS, SINGLE
from artefacts.trees.histogram_boosting import SUPPORTED as HISTOGRAMS

# Of any estimator: what `fit` leaves behind and no prediction reads.
ANYWHERE = {
    "cv_results_": "scores of a search, one a candidate and fold",
    "best_score_": "a score of a search",
    "refit_time_": "a time",
    "scorer_": "only the search uses it",
    "n_splits_": "only the search uses it",
    "oob_score_": "a score",
    "oob_prediction_": "predictions for every training row",
    "oob_decision_function_": "predictions for every training row",
    "scores_": "statistics of the training rows",
    "pvalues_": "statistics of the training rows",
    "variances_": "variances of the training rows",
    "n_iter_": "a count of the solver",
    "_seeds": "seeds of the bootstrap",
    "coefs_paths_": "models of the folds of a search",
    "_standard_coef": "coefficients before averaging",
    "_standard_intercept": "coefficients before averaging",
}
NEEDED = "kept: predictions need it"
_FOLLOWS = "the missing row follows from it alone"
# Fields of trees that `fit` leaves behind and predictions don't read.
_TREE_LEFTOVERS = (
    "_sample_weight",
    "_n_samples",
    "_n_samples_bootstrap",
    "oob_score_",
    "oob_decision_function_",
    "oob_prediction_",
    "oob_scores_",
    "oob_improvement_",
    "train_score_",
    "validation_score_",
    "_rng",
    "_random_seed",
    "_feature_subsample_rng",
)


def strip(estimator: Any) -> list[Removed]:
    """Take off an estimator, in place, what its row of the table says.

    Returns: what was removed or zeroed, and what had to stay; nothing where its class
      has no row.
    """
    own = registry.kind_of(type(estimator).__name__).strip
    return [] if own is None else own(estimator)


@dataclasses.dataclass(frozen=True)
class Gone:
    """Fields that predictions don't use.

    Attributes:
      fields: names of the attributes; those that an estimator doesn't have are skipped.
      why: why predictions can do without, for the page, one sentence.
      helps: whether an adversary who knows all other rows loses anything by it; None:
        untested.
    """

    fields: tuple[str, ...]
    why: str
    helps: bool | None = False

    def off(self, estimator: Any) -> list[Removed]:
        """The fields deleted, and a line for each."""
        removed = []
        for field in self.fields:
            if hasattr(estimator, field):
                delattr(estimator, field)
                removed.append(done(field, "removed", self.why, self.helps))
        return removed


def done(field: str, action: str, why: str, helps: bool | None = None) -> Removed:
    """A line of what stripping did; see `Removed`."""
    return Removed(field=field, action=action, helps=helps, why=why)


def kept(field: str, why: str = _FOLLOWS) -> Removed:
    """A field that predictions need, with what it tells."""
    return done(field, NEEDED, why)


def row(names: str | tuple[str, ...], *lines: Gone | Removed) -> None:
    """Register a stripper that deletes fields, and names those that have to stay."""

    def stripper(estimator: Any) -> list[Removed]:
        removed: list[Removed] = []
        for line in lines:
            removed += line.off(estimator) if isinstance(line, Gone) else [line]
        return removed

    register(names, strip=stripper)


def _standard_scaler(scaler: Any) -> list[Removed]:
    """Counts and variances; the mean too, where nothing is centred."""
    removed = Gone(("n_samples_seen_", "var_"), _COUNTED).off(scaler)
    if scaler.with_mean:
        return [*removed, kept("mean_")]
    scaler.mean_ = None
    why = f"not used without centring; {_FOLLOWS}"
    left = "how far the missing row is from the known rows' mean follows from it"
    return [*removed, done("mean_", "removed", why, True), kept("scale_", left)]


def _support(machine: Any) -> list[Removed]:
    """Which rows were support vectors: predictions don't ask."""
    machine.support_ = np.zeros_like(machine.support_)
    machine.shape_fit_ = (0, machine.shape_fit_[1])
    why = "positions and count of rows; predictions use the rows themselves"
    return [
        done("support_, shape_fit_", "zeroed", why, False),
        kept(
            "support_vectors_, dual_coef_",
            "the missing row lies there as it is, if it is a support vector",
        ),
    ]


def _network(network: Any) -> list[Removed]:
    """The seed, the optimiser's state and the learning curve."""
    fields = (
        "_optimizer",
        "_random_state",
        "loss_curve_",
        "best_loss_",
        "loss_",
        "t_",
        "_no_improvement_count",
        "validation_scores_",
        "best_validation_score_",
    )
    stored = tuple(each for each in fields if getattr(network, each, None) is not None)
    why = (
        "not used by predictions; the optimiser's state and the learning curve tell of"
        " training"
    )
    removed = Gone(stored, why, None).off(network)
    if network.random_state is not None:
        network.random_state = None
        why = (
            "without the seed training cannot simply be run again; 32 bits can be tried"
        )
        removed.append(done("random_state", "removed", why))
    return [
        *removed,
        kept("coefs_, intercepts_", "who knows the seed can run training again"),
    ]


def _trees(estimator: Any) -> list[Removed]:
    """Seeds and counts; thresholds, and what leaves predict, stay and tell a part."""
    name = type(estimator).__name__
    if name in HISTOGRAMS:
        removed = _histograms(estimator)
    else:
        parts = [estimator]
        if name not in SINGLE:
            parts = list(np.ravel(np.asarray(estimator.estimators_, object)))
        for part in parts:
            part.random_state = None
            _zero_nodes(part.tree_)
        removed = [
            done(
                "random_state of each tree",
                "removed",
                "It is the seed of the tree's bootstrap: which rows it saw.",
                True,
            ),
            done(
                "tree_.n_node_samples, weighted_n_node_samples, impurity",
                "zeroed",
                "Counts minus the known rows' are the missing row's path.",
                True,
            ),
            done(
                "tree_.threshold",
                NEEDED,
                "A midpoint of two training rows; of continuous columns it still tells"
                " values.",
                False,
            ),
        ]
    estimator.random_state = None
    gone = [field for field in _TREE_LEFTOVERS if field in vars(estimator)]
    for field in gone:
        delattr(estimator, field)
    if gone:
        why = "Left over from fit; predictions don't read it."
        removed.append(done(", ".join(gone), "removed", why))
    return removed


def _zero_nodes(tree: Any) -> None:
    """Zero what a tree's predictions don't need, inner nodes' values included."""
    state = tree.__getstate__()
    nodes, values = state["nodes"].copy(), state["values"].copy()
    for field in ("n_node_samples", "weighted_n_node_samples", "impurity"):
        nodes[field] = 0
    values[nodes["left_child"] >= 0] = 0
    tree.__setstate__(state | {"nodes": nodes, "values": values})


def _histograms(estimator: Any) -> list[Removed]:
    """Edges of bins, and counts and gains of nodes."""
    for stage in estimator._predictors:
        for predictor in stage:
            nodes = predictor.nodes.copy()
            nodes["count"] = 0
            nodes["gain"] = 0
            nodes["bin_threshold"] = 0
            nodes["value"][nodes["is_leaf"] == 0] = 0
            predictor.nodes = nodes
    mapper = estimator._bin_mapper
    # Edges of a categorical column are its categories, which predictions look up.
    mapper.bin_thresholds_ = [
        edges if categorical else np.zeros(0)
        for edges, categorical in zip(
            mapper.bin_thresholds_,
            np.asarray(mapper.is_categorical_, bool),
            strict=True,
        )
    ]
    mapper.n_bins_non_missing_ = np.zeros_like(mapper.n_bins_non_missing_)
    return [
        done(
            "_bin_mapper: bin_thresholds_, n_bins_non_missing_",
            "removed",
            "Midpoints of all training values; predictions use nodes' own.",
            True,
        ),
        done(
            "nodes: count, gain, bin_threshold, values of inner nodes",
            "zeroed",
            "Counts minus the known rows' are the missing row's path; a bin's number"
            " counts the values below a threshold.",
            True,
        ),
        done(
            "nodes: num_threshold; _baseline_prediction",
            NEEDED,
            "The baseline is the mean label; thresholds are edges of bins.",
            False,
        ),
    ]


_COUNTED = "not used by predictions; who knows the other rows can count them"
_SAME_COUNTS = (
    "not used by predictions; but feature_log_prob_ is the logarithm of the same counts"
)
_MEANS_SUFFICE = "not used by predictions; the means are enough without it"
_SCALE_SAYS = "not used by predictions; scale_ says the same"
_ROWS_ARE_IT = "the rows are the model; ship another one"
_FIT_ONLY = Gone(
    ("rank_", "n_iter_", "dual_gap_", "t_", "scores_"), "not used by predictions"
)
_CERTIFIES = Gone(("singular_",), "not used by predictions; it only certifies the row")
_OPTIMUM = kept("coef_, intercept_", "at the optimum they determine the missing row")
_MADE_OF_MEANS = (
    "made of the class means, which may follow from it, and the row with them"
)
_LOGARITHMS = kept(
    "feature_log_prob_", "logarithms of counts, which follow from it where one is zero"
)
_MEAN_OF_ROWS = Gone(
    ("X_offset_", "X_scale_", "sigma_"),
    "not used by predictions without `return_std`; the mean of the rows gives the"
    " missing one",
    None,
)
_PATHS = Gone(
    ("mse_path_", "coef_path_", "cv_alphas_", "alphas_", "coefs_paths_"),
    "only model selection",
    None,
)
_EXTREMES = kept("scale_", "the extremes follow from it")

# Scalers and decompositions.
register("StandardScaler", strip=_standard_scaler)
row(
    "PCA",
    Gone(("n_samples_",), _COUNTED),
    kept("mean_"),
    kept("explained_variance_, singular_values_", "they confirm the row"),
)
row(
    ("EmpiricalCovariance", "LedoitWolf", "OAS", "ShrunkCovariance", "GraphicalLasso"),
    kept("location_"),
    kept("covariance_, precision_", "they confirm the row"),
)
row(("FactorAnalysis", "FastICA", "SparsePCA"), kept("mean_"))
row(
    "IncrementalPCA",
    Gone(("n_samples_seen_", "var_", "singular_values_"), _COUNTED),
    kept("mean_"),
)
row(
    "TruncatedSVD",
    Gone(("singular_values_", "explained_variance_ratio_"), _COUNTED),
    Gone(
        ("explained_variance_",),
        "not used by predictions; with the singular values it gave the row",
        True,
    ),
    kept("components_"),
)
row(
    "MinMaxScaler",
    Gone(("data_min_", "data_max_", "data_range_", "n_samples_seen_"), _SCALE_SAYS),
    _EXTREMES,
)
row("MaxAbsScaler", Gone(("max_abs_", "n_samples_seen_"), _SCALE_SAYS), _EXTREMES)
row(
    "QuantileTransformer",
    kept(
        "quantiles_",
        "values of training rows, or between two of them: all, if there are as many",
    ),
)
row("KBinsDiscretizer", kept("bin_edges_", "the outer ones are the extreme values"))
row("RobustScaler", kept("center_, scale_", "values of training rows, or between two"))
row(
    "SimpleImputer",
    kept("statistics_", "a mean gives the missing row, a median bounds it"),
)

# What values and words occur.
row(
    ("OneHotEncoder", "OrdinalEncoder", "TargetEncoder"),
    kept(
        "categories_",
        "values that occur in training rows, also what one has",
    ),
)
row(
    ("CountVectorizer", "TfidfVectorizer"),
    kept(
        "vocabulary_, idf_",
        "words of training texts, and in how many they are",
    ),
)
row("TfidfTransformer", kept("idf_", "in how many training texts each word is"))

# Means and counts of classes and clusters.
row(
    "KMeans",
    Gone(
        ("labels_", "inertia_", "n_iter_"),
        "not used by predictions; it confirms the row",
    ),
    kept("cluster_centers_"),
)
row("GaussianNB", Gone(("class_count_", "epsilon_"), _MEANS_SUFFICE), kept("theta_"))
row(
    "LinearDiscriminantAnalysis",
    Gone(
        (
            "means_",
            "covariance_",
            "priors_",
            "xbar_",
            "scalings_",
            "explained_variance_ratio_",
        ),
        _MEANS_SUFFICE,
    ),
    kept("coef_, intercept_", _MADE_OF_MEANS),
)
row(
    "QuadraticDiscriminantAnalysis",
    Gone(("covariance_",), _MEANS_SUFFICE),
    kept("means_"),
)
row("NearestCentroid", Gone(("deviations_",), _MEANS_SUFFICE), kept("centroids_"))
_DISCRETE = ("feature_count_", "category_count_", "feature_all_", "class_count_")
row(("MultinomialNB", "BernoulliNB"), Gone(_DISCRETE, _SAME_COUNTS), _LOGARITHMS)
row("ComplementNB", Gone(_DISCRETE, _SAME_COUNTS, None), _LOGARITHMS)
# `predict` of CategoricalNB looks at `class_count_`.
row("CategoricalNB", Gone(_DISCRETE[:-1], _SAME_COUNTS), _LOGARITHMS)

# Linear models.
row(tuple(OBJECTIVES), _MEAN_OF_ROWS, _PATHS, _FIT_ONLY, _CERTIFIES, _OPTIMUM)
row("ARDRegression", _MEAN_OF_ROWS, _FIT_ONLY, _OPTIMUM)
row(
    ("Lasso", "ElasticNet", "LassoCV", "ElasticNetCV", "LassoLarsCV", "LarsCV"),
    _FIT_ONLY,
    _PATHS,
    _OPTIMUM,
)

# Rows as they are.
row(
    "GaussianProcessRegressor",
    Gone(
        ("y_train_",),
        "not used by predictions; alpha_ is the same up to the kernel",
    ),
    kept("X_train_, alpha_, L_", "the missing row lies there as it is"),
)
register(("SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM"), strip=_support)
row(
    (
        "KNeighborsClassifier",
        "KNeighborsRegressor",
        "RadiusNeighborsClassifier",
        "RadiusNeighborsRegressor",
        "LocalOutlierFactor",
        "KNNImputer",
    ),
    kept("_fit_X, _y", _ROWS_ARE_IT),
)
row(("KernelRidge", "KernelPCA"), kept("X_fit_", _ROWS_ARE_IT))

# Networks and trees.
row(
    "IsolationForest",
    kept("_average_path_length_per_tree", "the counts of nodes follow from it"),
)
register(("MLPClassifier", "MLPRegressor"), strip=_network)
register((*SINGLE, *FORESTS, *BOOSTING, *HISTOGRAMS), strip=_trees)
