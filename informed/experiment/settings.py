"""The configuration of a whole experiment, as frozen dataclasses.

The command line turns an ml_collections ConfigDict into an `Experiment` once; nothing
below it ever sees a ConfigDict. Every field has the same name in `configs/*.py`.
"""

import dataclasses
import zlib
from collections.abc import Mapping
from typing import Any

import jax
from jaxtyping import Array

from informed.experiment.named import NamedAttack
from informed.experiment.training_settings import TrainingConfig
from shadow import checks
from shadow.victims import VictimConfig
from shadow.views import ViewConfig

# Streams of randomness that these two had before there were others by name.
_KEYS = {"reconn": 2, "inversion": 3}


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which images, and how they are divided.

    Attributes:
      name: "digits" or the TFDS name of a prepared data set.
      shadow_name: another data set for the shadow targets, or None for the same one.
      num_fixed: size of the fixed set D_-.
      num_test: number of test targets; one released model each.
      balanced: classes equally often in every part.
      seed: of the division alone, so that the same targets can be met under several
        initialisations (Figure 17b); None: the experiment's seed.
    """

    name: str = "digits"
    shadow_name: str | None = None
    num_fixed: int = 300
    num_test: int = 100
    balanced: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.seed is not None:
            checks.at_least("seed", self.seed, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShadowConfig:
    """The shadow data set.

    Attributes:
      count: number of shadow models, k.
      block_size: models a block of the store; what a crash can lose at most.
      models_per_batch: models trained at once on a device; None chooses.
    """

    count: int = 1000
    block_size: int = 512
    models_per_batch: int | None = None

    def __post_init__(self) -> None:
        checks.at_least("count", self.count, 1)
        checks.at_least("block_size", self.block_size, 1)
        if self.models_per_batch is not None:
            checks.at_least("models_per_batch", self.models_per_batch, 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """Metrics besides the MSE.

    Attributes:
      lpips: perceptual distance; needs the extra "lpips".
    """

    lpips: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """Everything that decides a run's result; all that is random comes from `seed`.

    `attacks` are played by name; `targets = 0` leaves one out.
    """

    seed: int = 0
    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    victim: VictimConfig = dataclasses.field(default_factory=VictimConfig)
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
    shadow: ShadowConfig = dataclasses.field(default_factory=ShadowConfig)
    view: ViewConfig = dataclasses.field(default_factory=ViewConfig)
    attacks: Mapping[str, NamedAttack] = dataclasses.field(
        default_factory=lambda: {
            "reconn": NamedAttack.of("reconn"),
            "kernel": NamedAttack.of("kernel", targets=0),
            "inversion": NamedAttack.of("inversion", targets=0),
        }
    )
    evaluation: EvaluationConfig = dataclasses.field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        checks.at_least("seed", self.seed, 0)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> "Experiment":
        """Build from nested plain values.

        Raises: ValueError: an unknown field or a wrong type, named with its path.
        """
        return checks.build(cls, values)

    @property
    def training_key(self) -> Array:
        """Root of the randomness of shadow and released models."""
        return jax.random.fold_in(jax.random.key(self.seed), 1)

    def attack_key(self, name: str) -> Array:
        """Root of an attack's randomness."""
        if name in _KEYS:
            return jax.random.fold_in(jax.random.key(self.seed), _KEYS[name])
        number = zlib.crc32(name.encode())
        return jax.random.fold_in(
            jax.random.fold_in(jax.random.key(self.seed), 5), number
        )

    @property
    def values(self) -> dict[str, Any]:
        """All fields as nested plain values, as a configuration has them; JSON-able."""
        attacks = {name: one.values for name, one in self.attacks.items()}
        return dataclasses.asdict(self) | {"attacks": attacks}

    @property
    def played(self) -> dict[str, NamedAttack]:
        """The attacks that aren't left out."""
        return {name: one for name, one in self.attacks.items() if one.targets != 0}

    @property
    def model_configuration(self) -> dict[str, Any]:
        """The fields that decide a trained model, given its target's position."""
        training = dataclasses.asdict(self.training)
        divided = dataclasses.asdict(self.data)
        # Stores from before there were these fields stay valid.
        if not self.training.privacy.on:
            del training["privacy"]
        elif self.training.privacy.sampling == "poisson":
            del training["privacy"]["sampling"]
        if self.data.seed is None:
            del divided["seed"]
        return {
            "seed": self.seed,
            "data": divided,
            "victim": dataclasses.asdict(self.victim),
            "training": training,
        }
