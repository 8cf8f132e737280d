"""What is deleted from what, and how."""

import dataclasses

from shadow import checks

TABLES = ("breast_cancer", "diabetes", "wine")
MODELS = ("ridge", "logistic", "fourier", "network")
METHODS = ("retrain", "newton", "fine_tune", "ascent")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeletionConfig:
    """One service and its deletions.

    Attributes:
      data: a table of scikit-learn's (`TABLES`), or images by name, as "mnist".
      models: which models, see `MODELS`. "fourier": logistic regression on random
        Fourier features (ridge regression where labels are numbers).
      methods: how a row is deleted, see `METHODS`.
      rows: number of rows in the service's training set; 0: two fifths of a table, or
        2,000 images.
      public: number of rows that the adversary has; 0: as many as that.
      targets: number of rows that are deleted, one at a time.
      decay: lambda of affine models: lambda / 2 |theta|^2 is added to the sum of losses
        over rows.
      network_decay: lambda of the network.
      features: number of random Fourier features.
      width: number of units of the network's hidden layer.
      steps: number of steps when the network is trained, by gradient descent with
        momentum on all rows.
      rate: learning rate of these steps, on the mean loss.
      tuning_steps: gradient steps of fine-tuning on the rows that stay, and of ascent
        on the row that goes.
      batches: numbers of rows that are deleted at once, as a remedy.
      noise: standard deviations of noise on both models, as a remedy, in units of the
        root mean square of their difference.
      seed: the seed of splits, features, initialisations and noise.
    """

    data: str = "breast_cancer"
    models: tuple[str, ...] = MODELS
    methods: tuple[str, ...] = METHODS
    rows: int = 0
    public: int = 0
    targets: int = 50
    decay: float = 1.0
    network_decay: float = 5.0
    features: int = 200
    width: int = 20
    steps: int = 10_000
    rate: float = 0.1
    tuning_steps: int = 5
    batches: tuple[int, ...] = (1, 2, 5, 20)
    noise: tuple[float, ...] = (0.1, 1.0, 10.0)
    seed: int = 0

    def __post_init__(self) -> None:
        for name in self.models:
            checks.choice("models", name, MODELS)
        for name in self.methods:
            checks.choice("methods", name, METHODS)
        for field in ("targets", "features", "width", "steps", "tuning_steps"):
            checks.at_least(field, getattr(self, field), 1)
        for field in ("rows", "public"):
            checks.at_least(field, getattr(self, field), 0)
        for field in ("decay", "network_decay", "rate"):
            checks.positive(field, getattr(self, field))
        for field in ("models", "methods"):
            if not getattr(self, field):
                raise checks.FieldError(field, "Expected {} to name one at least.")
        if self.data == "diabetes" and "logistic" in self.models:
            raise checks.FieldError(
                "models", "{} names logistic; labels of diabetes are no classes."
            )
        for level in self.noise:
            checks.positive("noise", level)
        for size in self.batches:
            checks.at_least("batches", size, 1)
