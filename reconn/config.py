"""Architecture and training of the reconstructor, as one frozen dataclass."""

import dataclasses

from reconn import networks
from reconn.kernel import KernelConfig
from reconn.losses import LossConfig
from shadow import checks
from shadow.activations import ACTIVATIONS

KINDS = ("network", "kernel")
OPTIMISERS = ("adam", "rmsprop")
SCHEDULES = ("constant", "cosine")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReconnConfig:
    """Architecture and training of the reconstructor.

    Attributes:
      kind: "network", the paper's RecoNN, or "kernel" (`reconn.kernel`), to which of
        the other fields only models, standardise, clip and validation_fraction apply.
      kernel: the kernel regression.
      models: how many of the shadow models are used, from the first on; None: all.
      standardise: features to zero mean and unit variance (the paper's choice), or raw.
      architecture: "mlp" (Table V) or "transposed_cnn" (Table VII).
      widths: hidden widths; (1000, 1000) is Table V, (4096,) Table VII.
      activation: of the hidden layers; Table V has ReLU.
      loss: the weights of its terms.
      optimiser: "adam" (decoupled weight decay) or "rmsprop" (Table V; started with a
        second moment of 1, since from 0 its first steps kill the ReLUs).
      learning_rate: the largest one.
      schedule: "constant" or "cosine" (down to zero), after `warmup_epochs`.
      warmup_epochs: linear rise from zero; may be a fraction.
      weight_decay: of "adam".
      batch_size: shadow models a step.
      epochs: passes over the training part of the shadow models.
      input_dropout, dropout: share of the inputs, and of each hidden layer, that is set
        to zero in training, in [0, 1). Not in Table V; where shadow models are few they
        are what keeps the network from learning them by heart.
      clip: standardised weights are cut to [-clip, clip].
      validation_fraction: share of the shadow models kept for choosing the best epoch.
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

    def __post_init__(self) -> None:
        checks.choice("reconn.kind", self.kind, KINDS)
        checks.choice("reconn.architecture", self.architecture, networks.ARCHITECTURES)
        checks.choice("reconn.activation", self.activation, ACTIVATIONS)
        checks.choice("reconn.optimiser", self.optimiser, OPTIMISERS)
        checks.choice("reconn.schedule", self.schedule, SCHEDULES)
        if self.models is not None:
            checks.at_least("reconn.models", self.models, 2)
        checks.at_least("reconn.epochs", self.epochs, 1)
        checks.at_least("reconn.batch_size", self.batch_size, 1)
        checks.at_least("reconn.warmup_epochs", self.warmup_epochs, 0)
        checks.at_least("reconn.weight_decay", self.weight_decay, 0)
        for field in ("learning_rate", "clip"):
            if not getattr(self, field) > 0:
                raise ValueError(
                    f"Expected reconn.{field} > 0, got {getattr(self, field)!r}."
                )
        for field in ("input_dropout", "dropout"):
            if not 0 <= getattr(self, field) < 1:
                raise ValueError(
                    f"Expected reconn.{field} in [0, 1), got {getattr(self, field)!r}."
                )
        if self.weight_decay and self.optimiser != "adam":
            raise ValueError(
                "reconn.weight_decay is of the optimiser 'adam'; it would do nothing to"
                f" {self.optimiser!r}. Set it to 0."
            )
        if not 0 < self.validation_fraction < 1:
            raise ValueError(
                "Expected reconn.validation_fraction in (0, 1), got"
                f" {self.validation_fraction!r}."
            )

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
