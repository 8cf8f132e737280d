"""The configuration of a whole run (`Experiment`), as frozen dataclasses.

`cli.configuration` turns the ConfigDict of a configuration file, such as those in
`configs/`, into an `Experiment`, whose fields have the same names. All stages of
`pipeline` take an `Experiment`. Nothing is loaded or trained here.
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

# Fixed streams of randomness of these two attacks; others derive theirs from the name.
_KEYS = {"reconn": 2, "inversion": 3}


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The data sets, and how they are split.

    Attributes:
      name: name of a data set, as `shadow.sources.load` takes it.
      shadow_name: another data set for the shadow targets, or None for the same one.
      num_fixed: size of the fixed set D_-.
      num_test: number of test targets; one released model each.
      seed: seed of the split alone, so that the same targets can be attacked under
        several initialisations (Balle et al., Figure 17b); None: the experiment's seed.
    """

    name: str = "digits"
    shadow_name: str | None = None
    num_fixed: int = 300
    num_test: int = 100
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.seed is not None:
            checks.at_least("seed", self.seed, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShadowConfig:
    """The shadow data set.

    Attributes:
      count: number of shadow models, k.
      block_size: models per block of the store; the most that a crash can lose.
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
      lpips: whether to compute the perceptual distance; needs the extra "lpips".
    """

    lpips: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """Everything that determines a run's results.

    All randomness derives from `seed`, except a split that has a seed of its own.
    `attacks` maps names to attacks; `targets = 0` leaves one out.
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
        """Build from nested plain values, such as a ConfigDict's.

        Raises: ValueError: an unknown field or a wrong type; names its path.
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
        """Return all fields as nested, JSON-able values, as in a configuration."""
        attacks = {name: one.values for name, one in self.attacks.items()}
        return dataclasses.asdict(self) | {"attacks": attacks}

    @property
    def played(self) -> dict[str, NamedAttack]:
        """The attacks that aren't left out."""
        return {name: one for name, one in self.attacks.items() if one.targets != 0}

    @property
    def model_configuration(self) -> dict[str, Any]:
        """Return the fields that determine a trained model, given its target."""
        training = dataclasses.asdict(self.training)
        divided = dataclasses.asdict(self.data)
        # Leave out newer fields at their defaults, so that older stores stay valid.
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
