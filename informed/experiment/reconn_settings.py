"""Settings of attacks that learn from shadow models, for run configurations.

`reconn` takes objects such as optimisers; a configuration names them, and `method`
builds them from the names. `attacks.shadow_trained` calls it and trains the result;
`attacks.registry` names the classes. Tables are those of Balle et al. 2022.
"""

import dataclasses
from typing import Any

import reconn
from reconn.modules import BUILDERS
from shadow import checks

KINDS = ("network", "kernel", "refined")
OPTIMISERS = ("adam", "rmsprop")
SCHEDULES = ("constant", "cosine")


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelSettings:
    """Settings of the kernel regression, as in `reconn.Kernel`."""

    scale: float = 4.0
    ridge: float | None = None
    voters: int = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReconnConfig:
    """The settings of a learned attack, by name.

    Attributes:
      kind: "network", the RecoNN of Balle et al. 2022 (`reconn.Network`); "kernel"
        (`reconn.Kernel`), which uses only kernel, models, standardise, clip,
        validation_fraction and shrink; or "refined" (`reconn.Refined`), the kernel and
        a residual_cnn that corrects it.
      kernel: the kernel regression.
      architecture: "mlp" (Table V), "transposed_cnn" (Table VII) or "residual_cnn".
      widths, activation, input_dropout, dropout: of mlp and transposed_cnn.
      channels, blocks: of residual_cnn.
      optimiser: "adam" (decoupled weight decay) or "rmsprop" (Table V).
      learning_rate: the largest one.
      schedule: "constant" or "cosine" (down to zero), after `warmup_epochs`.
      warmup_epochs: linear rise from zero; may be a fraction.
      weight_decay: the decoupled weight decay of "adam".
      models, standardise, clip, validation_fraction, shrink, loss, batch_size, epochs,
        kept: as in `reconn.Network`; "refined" keeps the best, whatever `kept` says.
    """

    kind: str = "network"
    kernel: KernelSettings = dataclasses.field(default_factory=KernelSettings)
    models: int | None = None
    standardise: bool = True
    architecture: str = "mlp"
    widths: tuple[int, ...] = (1000, 1000)
    activation: str = "relu"
    loss: reconn.Loss = dataclasses.field(default_factory=reconn.Loss)
    optimiser: str = "adam"
    learning_rate: float = 5e-4
    schedule: str = "cosine"
    warmup_epochs: float = 1.0
    weight_decay: float = 0.0
    batch_size: int = 128
    epochs: int = 40
    input_dropout: float = 0.2
    dropout: float = 0.2
    channels: int = 48
    blocks: int = 3
    clip: float = 10.0
    validation_fraction: float = 0.05
    kept: str = "best"
    shrink: bool = True

    def __post_init__(self) -> None:
        checks.choice("kind", self.kind, KINDS)
        checks.choice("architecture", self.architecture, BUILDERS)
        checks.choice("optimiser", self.optimiser, OPTIMISERS)
        checks.choice("schedule", self.schedule, SCHEDULES)
        if self.weight_decay and self.optimiser != "adam":
            raise checks.FieldError(
                "weight_decay",
                "{} is of the optimiser 'adam'; it would do nothing to"
                f" {self.optimiser!r}. Set it to 0.",
            )
        if self.kind == "refined" and self.architecture != "residual_cnn":
            raise checks.FieldError(
                "architecture",
                "Expected {} = 'residual_cnn' with kind = 'refined', got"
                f" {self.architecture!r}: the others don't correct images.",
            )
        self._network()
        self._kernel()

    def method(self) -> reconn.Kernel | reconn.Network | reconn.Refined:
        """Return the method that these settings name."""
        if self.kind == "kernel":
            return self._kernel(**self._fields(reconn.Kernel))
        if self.kind == "refined":
            fields = self._fields(reconn.Refined) | {"kernel": self._kernel()}
            return reconn.Refined(**self._trained(), **fields)
        return self._network()

    def _kernel(self, **shared: Any) -> reconn.Kernel:
        with checks.under("kernel"):
            return reconn.Kernel(**shared | dataclasses.asdict(self.kernel))

    def _network(self) -> reconn.Network:
        return reconn.Network(**self._trained(), **self._fields(reconn.Network))

    def _trained(self) -> dict[str, Any]:
        """Return module and optimiser."""
        builder = BUILDERS[self.architecture]
        rate = {
            name: getattr(self, name) for name in ("learning_rate", "warmup_epochs")
        }
        if self.optimiser == "adam":
            optimiser = reconn.adam_cosine(weight_decay=self.weight_decay, **rate)
        else:
            optimiser = reconn.rmsprop(**rate)
        return {
            "module": builder(**self._fields(builder)),
            "optimiser": dataclasses.replace(
                optimiser, decays=self.schedule == "cosine"
            ),
        }

    def _fields(self, cls: type) -> dict[str, Any]:
        """Return the fields of `cls` that these settings have, by the same name."""
        names = {field.name for field in dataclasses.fields(cls)} - {"optimiser"}
        return {n: getattr(self, n) for n in names if hasattr(self, n)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RefinedReconnConfig(ReconnConfig):
    """The same settings with `reconn.Refined`'s defaults; for the row `refined`."""

    kind: str = "refined"
    architecture: str = "residual_cnn"
    loss: reconn.Loss = dataclasses.field(default_factory=lambda: reconn.Loss(mae=0.0))
    learning_rate: float = 2e-3
    weight_decay: float = 1e-2
    batch_size: int = 64
    epochs: int = 10

    def __post_init__(self) -> None:
        checks.choice("kind", self.kind, ("refined",))
        super().__post_init__()


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelReconnConfig(ReconnConfig):
    """The same settings with the kernel regression; for rows `kernel`, `black_box`."""

    kind: str = "kernel"

    def __post_init__(self) -> None:
        checks.choice("kind", self.kind, ("kernel",))
        super().__post_init__()
