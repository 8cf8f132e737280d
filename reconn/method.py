"""The interface of learned reconstructors: common settings, and one training run.

The settings of `kernel`, `network` and `refined` are subclasses of `Method`. `trainer`
makes a `Run` of the shadow models and passes it to the method's `learn`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Array, Float32, Int

from dp import domain
from reconn.input_layout import InputLayout
from shadow import checks

# Whole numbers among the settings of methods, and the least of each.
_WHOLE = {"models": 3, "voters": 1, "epochs": 1, "batch_size": 1}
JUDGED = 1000  # validation models, at most, for choices and `Reconstructor.errors`

Features = Float32[np.ndarray, "models features"]
TargetImages = Float32[np.ndarray, "models height width channels"]
Labels = Int[np.ndarray, " models"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """One training run: the shadow models to learn from, and the folder of results.

    It has no release and no target of one.

    Attributes:
      features, images, labels: those of the shadow models, in random order.
      layout: where a row of features has which weights.
      num_train: the number of models that train; the others, at the end, validate.
      workdir, kept: the folder, and whether it outlives the run.
      mark: part of the names of scratch files, unique to this run and process.
      start: parameters that training begins with, by name; None: random ones.
      still_ours: raises if another run has taken the folder; see `records.claim`.
      key, devices, progress, on_epoch: as in `reconn.train`.
    """

    features: Features
    images: TargetImages
    labels: Labels
    layout: InputLayout
    num_train: int
    key: Array
    workdir: Path
    kept: bool
    mark: str
    start: Mapping[str, Any] | None
    devices: Sequence[jax.Device] | None
    still_ours: Callable[[], None]
    progress: bool
    on_epoch: Callable[[], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
    """Settings that `Kernel`, `Network` and `Refined` share; these add `learn(run)`.

    Attributes:
      kind: the name of the method in run.json.
      revisions: those of its components, by name.
      models: the number of shadow models that are used, from the first on; None: all.
      standardise: features to zero mean and unit variance (the paper's choice), or raw.
      clip: standardised weights are cut to [-clip, clip].
      validation_fraction: share of the shadow models, the last ones, that are held out
        to choose settings by, and to measure the result.
      shrink: whether reconstructions are drawn towards the mean image where theta says
        little (`reconn.shrinkage`). The paper doesn't do this.
    """

    kind: ClassVar[str]
    revisions: ClassVar[Mapping[str, int]]
    models: int | None = None
    standardise: bool = True
    clip: float = 10.0
    validation_fraction: float = 0.05
    shrink: bool = True

    def __post_init__(self) -> None:
        for field, least in _WHOLE.items():  # those that the method has
            if (value := getattr(self, field, None)) is not None:
                object.__setattr__(self, field, domain.integer(field, value, least))
        checks.positive("clip", self.clip)
        checks.positive("validation_fraction", self.validation_fraction)
        checks.within("validation_fraction", self.validation_fraction, 0, 1)

    def identity(self, layout: InputLayout, num_train: int) -> dict[str, Any]:
        """Return what decides the reconstructor, as JSON-able fields."""
        return dataclasses.asdict(self)
