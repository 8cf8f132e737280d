"""Architecture and training of the reconstructor, as one frozen dataclass."""

import dataclasses

from reconn import networks
from reconn.kernel import KernelConfig
from reconn.losses import LossConfig
from shadow import checks
from shadow.victims.activations import ACTIVATIONS

KINDS = ("network", "kernel")
OPTIMISERS = ("adam", "rmsprop")
SCHEDULES = ("constant", "cosine")
KEPT = ("best", "last")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReconnConfig:
    """Architecture and training of the reconstructor.

    Attributes:
      kind: "network", the paper's RecoNN, or "kernel" (`reconn.kernel`), to which of
        the other fields only models, standardise, clip, validation_fraction and shrink
        apply.
      kernel: the kernel regression.
      models: the number of shadow models that are used, from the first on; None: all.
      standardise: features to zero mean and unit variance (the paper's choice), or raw.
      architecture: "mlp" (Table V) or "transposed_cnn" (Table VII).
      widths: hidden widths; (1000, 1000) is Table V, (4096,) Table VII.
      activation: activation of the hidden layers; Table V has ReLU.
      loss: the weights of its terms.
      optimiser: "adam" (decoupled weight decay) or "rmsprop" (Table V; started with a
        second moment of 1, since from 0 its first steps kill the ReLUs).
      learning_rate: the largest one.
      schedule: "constant" or "cosine" (down to zero), after `warmup_epochs`.
      warmup_epochs: linear rise from zero; may be a fraction.
      weight_decay: the decoupled weight decay of "adam".
      batch_size: shadow models per step.
      epochs: passes over the training part of the shadow models.
      input_dropout, dropout: share of the inputs, and of each hidden layer, that is set
        to zero in training, in [0, 1). Not in Table V; where shadow models are few they
        are what keeps the network from learning them by heart.
      clip: standardised weights are cut to [-clip, clip].
      validation_fraction: share of the shadow models kept for choosing the best epoch.
      kept: "best": the network of the epoch with the least validation error; "last":
        that of the last epoch, as in Table V.
      shrink: whether reconstructions are drawn towards the mean image where theta tells
        little (`reconn.shrinkage`). The paper's are as the network gives them.
    """

    kind: str = "network"
    kernel: KernelConfig = dataclasses.field(default_factory=KernelConfig)
    models: int | None = None
    standardise: bool = True
    architecture: str = "mlp"
    widths: tuple[int, ...] = (1000, 1000)
    activation: str = "relu"
    loss: LossConfig = dataclasses.field(default_factory=LossConfig)
    optimiser: str = "adam"
    learning_rate: float = 5e-4
    schedule: str = "cosine"
    warmup_epochs: float = 1.0
    weight_decay: float = 0.0
    batch_size: int = 128
    epochs: int = 40
    input_dropout: float = 0.2
    dropout: float = 0.2
    clip: float = 10.0
    validation_fraction: float = 0.05
    kept: str = "best"
    shrink: bool = True

    def __post_init__(self) -> None:
        checks.choice("kind", self.kind, KINDS)
        checks.choice("architecture", self.architecture, networks.ARCHITECTURES)
        checks.choice("activation", self.activation, ACTIVATIONS)
        checks.choice("optimiser", self.optimiser, OPTIMISERS)
        checks.choice("schedule", self.schedule, SCHEDULES)
        checks.choice("kept", self.kept, KEPT)
        if self.models is not None:
            checks.at_least("models", self.models, 2)
        checks.at_least("epochs", self.epochs, 1)
        checks.at_least("batch_size", self.batch_size, 1)
        checks.at_least("warmup_epochs", self.warmup_epochs, 0)
        checks.at_least("weight_decay", self.weight_decay, 0)
        for field in ("learning_rate", "clip"):
            checks.positive(field, getattr(self, field))
        for field in ("input_dropout", "dropout"):
            checks.within(field, getattr(self, field), 0, 1)
        if self.weight_decay and self.optimiser != "adam":
            raise checks.FieldError(
                "weight_decay",
                "{} is of the optimiser 'adam'; it would do nothing to"
                f" {self.optimiser!r}. Set it to 0.",
            )
        checks.positive("validation_fraction", self.validation_fraction)
        checks.within("validation_fraction", self.validation_fraction, 0, 1)

    @property
    def convolutional(self) -> bool:
        """Whether a step of training has convolutions, in the network or the loss."""
        of_loss = self.loss.lpips > 0 or self.loss.adversarial > 0
        return self.architecture == "transposed_cnn" or of_loss

    def network(
        self, num_features: int, image_shape: tuple[int, ...]
    ) -> networks.Network:
        """The network of this configuration."""
        return networks.ARCHITECTURES[self.architecture](
            num_features,
            image_shape,
            widths=self.widths,
            activation=self.activation,
            input_dropout=self.input_dropout,
            dropout=self.dropout,
        )
