"""A trained reconstructor in one file, to keep and to hand on; never a pickle.

The arrays in reconstructor.safetensors are standardiser/mean, standardiser/scale,
standardiser/clip, shrinkage/mean, shrinkage/factor and, of a RecoNN,
network/MODULE/NAME. The points of a kernel regression, which may be gigabytes, are
mapped from files of their own; see `kernel`.
"""

import dataclasses
from pathlib import Path

import jax
import numpy as np

from reconn.features import Standardiser
from reconn.shrinkage import Shrinkage
from shadow import safetensors
from shadow.records import NotMadeError
from shadow.victims import Params

FILE = "reconstructor.safetensors"
_NETWORK = "network/"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Saved:
    """What the file holds.

    Attributes:
      standardiser, shrinkage: before and after the model.
      params: the parameters of the RecoNN; empty with a kernel regression.
    """

    standardiser: Standardiser
    shrinkage: Shrinkage
    params: Params

    def write(self, workdir: Path) -> None:
        """Last of all: who finds the file finds a finished reconstructor."""
        before, after = self.standardiser, self.shrinkage
        arrays = {
            "standardiser/mean": before.mean,
            "standardiser/scale": before.scale,
            "standardiser/clip": np.float64(before.clip),
            "shrinkage/mean": after.mean,
            "shrinkage/factor": np.float64(after.factor),
        }
        for module, values in jax.device_get(self.params).items():
            for name, value in values.items():
                arrays[f"{_NETWORK}{module}/{name}"] = value
        safetensors.write(workdir / FILE, arrays)

    @classmethod
    def read(cls, workdir: Path) -> "Saved":
        """What was written.

        Raises: NotMadeError: there is no finished reconstructor; ValueError: the file
          is damaged.
        """
        if not (workdir / FILE).exists():
            raise NotMadeError(
                f"The reconstructor in {workdir} is not finished.", by="train"
            )
        arrays = safetensors.read(workdir / FILE)
        params: dict[str, dict[str, np.ndarray]] = {}
        for path, value in arrays.items():
            if path.startswith(_NETWORK):
                module, name = path.removeprefix(_NETWORK).rsplit("/", 1)
                params.setdefault(module, {})[name] = value
        return cls(
            standardiser=Standardiser(
                mean=arrays["standardiser/mean"],
                scale=arrays["standardiser/scale"],
                clip=float(arrays["standardiser/clip"]),
            ),
            shrinkage=Shrinkage(
                mean=arrays["shrinkage/mean"], factor=float(arrays["shrinkage/factor"])
            ),
            params=params,
        )
