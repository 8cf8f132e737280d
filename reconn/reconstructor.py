"""A trained reconstructor: the attack that `trainer.train` returns, and its files.

Users, runs and audits call it; users read it back by `load`. It is kept in a folder,
never as a pickle, which would run code. The arrays in reconstructor.safetensors are
standardiser/mean, standardiser/scale, standardiser/clip, shrinkage/mean,
shrinkage/factor, held_out/errors and, of a network, network/MODULE/NAME; of a module
other than `mlp` and `transposed_cnn` also program, its inference as `jax.export`
serialises it; of a refined kernel refinement/weight. The points of a kernel regression,
maybe gigabytes, are mapped from separate files; see `kernel`. Settings: run.json.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export
from jaxtyping import Array, Float32

from reconn import kernel, modules
from reconn.features import Standardiser
from reconn.input_layout import InputLayout
from reconn.kernel import Kernel, KernelRegression
from reconn.network import Network, TrainedNetwork
from reconn.refined import Refined, RefinedKernel
from reconn.shrinkage import Shrinkage
from shadow import checks, places, records, safetensors
from shadow.records import NotMadeError, Record, VersionMismatchError
from shadow.threat import Knowledge, Reconstruction, Release

FILE = "reconstructor.safetensors"
_NETWORK, _PROGRAM = "network/", "program"  # how its arrays' names begin; one name
_METHODS: dict[str, type[Kernel | Network | Refined]] = {
    method.kind: method for method in (Kernel, Network, Refined)
}
Model = TrainedNetwork | KernelRegression | RefinedKernel


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Reconstructor:
    """An attack learned from shadow models: phi of Balle et al. 2022, Section IV.

    THREAT: knows the fixed set D_-, the training algorithm A and, where it is shared,
    the initialisation, all by way of the shadow models it trained itself; has public
    images to train them on. Any release: all weights theta, some layers, logits.

    Attributes:
      view: the view of theta it was trained on: "fingerprint", and "what" in words.
      model: turns standardised releases into images, and labels if it predicts any.
      errors: truth minus guess on validation models, at most 1,000; they show how
        errors at known pixels relate to errors at the other pixels.
    """

    view: Mapping[str, str]
    standardiser: Standardiser
    model: Model
    shrinkage: Shrinkage
    errors: Float32[np.ndarray, "models height width channels"]

    def __call__(
        self, release: Release, knowledge: Knowledge, *, key: Array | None = None
    ) -> Reconstruction:
        """Reconstruct the target of every release, and its label if the model does.

        Pixels are in [0, 1]. Uses known pixels. Deterministic: the key isn't used.

        Raises: FieldError: the release is another view of theta, or of another victim,
          than the shadow models.
        """
        del key
        knowledge.require(release)
        if release.view.fingerprint() != self.view["fingerprint"]:
            raise checks.FieldError(
                "view",
                f"Expected a release of {self.view['what']}, as of the shadow models"
                f" that this reconstructor was trained on; got one of"
                f" {release.view.what} (or of other ones).",
            )
        images, labels = self.model.labelled(self.standardiser(release.values))
        images = np.clip(self.shrinkage(images), 0, 1)
        if knowledge.known is not None:
            images = knowledge.known.completed(images, self.errors)
        return Reconstruction(images=images, labels=labels)

    def _save(self, workdir: Path) -> None:
        """Write the arrays, after all other files: they mark a finished folder."""
        arrays: dict[str, Any] = {
            "standardiser/mean": self.standardiser.mean,
            "standardiser/scale": self.standardiser.scale,
            "standardiser/clip": np.float64(self.standardiser.clip),
            "shrinkage/mean": self.shrinkage.mean,
            "shrinkage/factor": np.float64(self.shrinkage.factor),
            "held_out/errors": self.errors,
        }
        network: Model | None = self.model
        if isinstance(network, RefinedKernel):
            arrays["refinement/weight"] = np.float64(network.weight)
            network = network.network
        if isinstance(network, TrainedNetwork):
            params = modules.named(jax.device_get(network.params))
            arrays |= {f"{_NETWORK}{name}": array for name, array in params.items()}
            if network.program is not None:
                arrays[_PROGRAM] = np.frombuffer(network.program, np.uint8)
        safetensors.write(workdir / FILE, arrays)


def load(workdir: str | os.PathLike) -> Reconstructor:
    """Load the reconstructor that a finished `train` left in a folder.

    Raises: NotMadeError: there is no reconstructor, or it isn't finished;
      VersionMismatchError: other versions made it; ValueError: a file is damaged.
    """
    workdir, what = places.folder(workdir), f"The reconstructor in {workdir}"
    if not (workdir / "run.json").exists():
        raise NotMadeError(f"There is no reconstructor in {workdir}.", by="train")
    record = Record.read(json.loads((workdir / "run.json").read_text()))
    kind = next((kind for kind in _METHODS if kind in record.configuration), None)
    if kind is None:
        raise VersionMismatchError(f"{what} was made by an earlier version of reconn.")
    ours = Record(record.configuration, records.versions(**_METHODS[kind].revisions))
    records.require_same(record, ours, what)
    if not (workdir / FILE).exists():
        raise NotMadeError(f"{what} is not finished.", by="train")
    arrays = safetensors.read(workdir / FILE)
    standardiser = Standardiser(
        mean=arrays["standardiser/mean"],
        scale=arrays["standardiser/scale"],
        clip=float(arrays["standardiser/clip"]),
    )
    mean = arrays["shrinkage/mean"]
    model: Model
    if kind == "kernel":
        model = kernel.load(workdir / "kernel", mean.shape)
    else:
        settings = record.configuration[kind]
        model = network = _network(settings, standardiser.num_features, arrays)
        if kind == "refined":
            model = RefinedKernel(
                kernel=kernel.load(workdir / "kernel", mean.shape),
                network=network,
                weight=float(arrays["refinement/weight"]),
            )
    return Reconstructor(
        view=record.configuration["view"],
        standardiser=standardiser,
        model=model,
        shrinkage=Shrinkage(mean=mean, factor=float(arrays["shrinkage/factor"])),
        errors=arrays["held_out/errors"],
    )


def _network(
    settings: Mapping[str, Any], num_features: int, arrays: Mapping[str, Any]
) -> TrainedNetwork:
    """Return the network of a folder, from its program or its builder."""
    params = {
        path.removeprefix(_NETWORK): array
        for path, array in arrays.items()
        if path.startswith(_NETWORK)
    }
    if _PROGRAM in arrays:
        program = export.deserialize(bytearray(arrays[_PROGRAM].tobytes()))
        order = list(params)  # the tree's, which jit would sort
        return TrainedNetwork(
            lambda params, inputs: program.call([params[n] for n in order], inputs),
            params,
            program=arrays[_PROGRAM].tobytes(),
        )
    ((name, arguments),) = settings["module"].items()
    lists = {k: tuple(v) for k, v in arguments.items() if isinstance(v, list)}
    shape = arrays["shrinkage/mean"].shape
    layout = InputLayout(num_features=num_features, image_shape=shape)
    pure = modules.build(modules.BUILDERS[name](**arguments | lists), layout)
    return TrainedNetwork(pure.apply, modules.filled(pure, params, "network"))
