"""The refined reconstructor: kernel regression, corrected by a network.

`trainer` calls `Refined.learn`, and `reconstructor` rebuilds the result from its files.
Kernel regression captures which weights move together, but not what targets look like:
its errors are blur and ghosts. A network learns to correct them from the same shadow
models, with guesses for models that were left out of the kernel. Validation models
decide the weight of the correction, which may be 0.
"""

import dataclasses
import math
from typing import Any, ClassVar

import haiku as hk
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32

from reconn import features, kernel, modules
from reconn.input_layout import InputLayout
from reconn.kernel import Kernel, KernelRegression, LeftOut
from reconn.method import JUDGED, Features, Labels, Method, Run, TargetImages
from reconn.network import Network, TrainedNetwork
from reconn.objective import Loss
from reconn.optimisers import adam_cosine
from reconn.residual import ResidualCnn
from reconn.shrinkage import best_weight
from shadow import checks

# Incremented when the same configuration gives other results; see `shadow.records`.
REVISION = 2
_LOOKS = 2  # guesses that a row of inputs has: the kernel's last look, and its first
_ROWS_AT_ONCE = 2048  # models; bounds memory
Rows = Float32[np.ndarray, "models inputs"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Refined(Method):
    """Settings of a kernel regression and its network; defaults chosen on MNIST.

    Attributes:
      kernel: the regression whose guesses are corrected.
      module: the correction: a Haiku function (images, vectors, *, training) ->
        correction, a pair (init, apply) of the same arguments, or `residual_cnn()`.
        images (models, height, width, channels) are the kernel's last look, its first
        one, and the first layer's weights; vectors (models, entries) are the other
        weights and one vote per label; correction has the shape of the targets.
      optimiser, epochs, batch_size, loss: as in `Network`.
    """

    kind = "refined"
    revisions: ClassVar = Kernel.revisions | Network.revisions | {"refined": REVISION}
    kernel: Kernel = dataclasses.field(default_factory=Kernel)
    module: Any = dataclasses.field(default_factory=ResidualCnn)
    optimiser: Any = dataclasses.field(
        default_factory=lambda: adam_cosine(learning_rate=2e-3, weight_decay=1e-2)
    )
    epochs: int = 10
    batch_size: int = 64
    loss: Loss = dataclasses.field(default_factory=lambda: Loss(mae=0.0))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.kernel, Kernel):
            raise checks.FieldError(
                "kernel", f"Expected {{}} to be a reconn.Kernel, got {self.kernel!r}."
            )
        for field in dataclasses.fields(Method):
            value = getattr(self.kernel, field.name)
            if value != field.default:
                raise checks.FieldError(
                    f"kernel.{field.name}",
                    f"Expected {{}} to be left at {field.default!r}, got {value!r}: set"
                    " it on Refined, whose shadow models the kernel gets.",
                )
        modules.require(
            self.module,
            "correction",
            "a Haiku function (images, vectors, *, training), a pair (init, apply) or"
            " reconn.residual_cnn()",
        )
        self.network()

    def network(self) -> Network:
        """Return the settings of the network's training; checks them."""
        shared = {f.name: getattr(self, f.name) for f in dataclasses.fields(Method)}
        return Network(
            module=_Corrected(self.module),
            optimiser=self.optimiser,
            epochs=self.epochs,
            batch_size=self.batch_size,
            loss=self.loss,
            **shared,
        )

    def identity(self, layout: InputLayout, num_train: int) -> dict[str, Any]:
        """Return the settings of both parts."""
        return {
            "kernel": dataclasses.asdict(self.kernel),
            "network": self.network().identity(_with_guesses(layout), num_train),
        }

    def learn(self, run: Run) -> "RefinedKernel":
        """Return a kernel, and a correction that learned from its left-out guesses."""
        layout, network = _with_guesses(run.layout), self.network()
        if run.kept:  # refuse a module that can't be saved before minutes are spent
            pure = modules.build(network.module, layout)
            modules.exported(pure, layout.num_inputs)
        regression, left_out = kernel.learned(self.kernel, run, leave_out=True)
        refined = RefinedKernel(kernel=regression)
        scratch = run.workdir / f"rows-{run.mark}.npy"
        shape = len(run.features), layout.num_inputs
        rows = features.room(shape, scratch)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            at = np.arange(start, min(start + _ROWS_AT_ONCE, len(rows)))
            train, unseen = at[at < run.num_train], at[at >= run.num_train]
            if len(train):
                answers = left_out and left_out.take(train)
                rows[train] = refined.rows(run.features[train], answers)
            if len(unseen):
                rows[unseen] = refined.rows(run.features[unseen])
        seen = dataclasses.replace(run, features=rows, layout=layout)
        trained = network.learn(seen)
        judged = slice(run.num_train, run.num_train + JUDGED)
        guesses = refined.guesses(rows[judged])
        changes = trained(rows[judged]) - guesses
        errors = run.images[judged] - guesses
        # Two standard errors would hide real gains from 50 validation models.
        weight = best_weight(changes, errors, default=0.0, sure=1.0)
        scratch.unlink(missing_ok=True)
        return RefinedKernel(kernel=regression, network=trained, weight=weight)


@dataclasses.dataclass(frozen=True)
class _Corrected:
    """The module of `Network` that adds a correction to the first guess of a row."""

    correction: Any

    def build(self, layout: InputLayout) -> tuple[Any, Any]:
        """Return (init, apply) of rows."""
        module = self.correction
        if hasattr(module, "correction"):
            module = module.correction(layout.image_shape)
        init, apply = module if isinstance(module, tuple) else hk.transform(module)

        def start(key: Array, rows: Array, *, training: bool) -> Any:
            parts = layout.images(rows), layout.vectors(rows)
            return init(key, *parts, training=training)

        def corrected(
            params: Any, key: Array | None, rows: Array, *, training: bool
        ) -> Array:
            images, vectors = layout.images(rows), layout.vectors(rows)
            guess = images[..., : layout.image_shape[2]]
            change = apply(params, key, images, vectors, training=training)
            if change.shape[1:] != guess.shape[1:]:
                raise TypeError(
                    f"a correction of shape {change.shape} for targets of shape"
                    f" {layout.image_shape}"
                )
            images = guess + change
            return images if training else jnp.clip(images, 0, 1)

        return start, corrected


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RefinedKernel:
    """A kernel regression and the network that corrects it.

    Attributes:
      network: turns `rows` into images; None before it is trained.
      weight: the weight of the correction, in [0, 1]; 0 leaves the kernel's guess.
    """

    kernel: KernelRegression
    network: TrainedNetwork | None = None
    weight: float = 1.0

    def __call__(self, features: Features) -> TargetImages:
        """Return one image per model, pixels in [0, 1]."""
        return self.labelled(features)[0]

    def labelled(self, features: Features) -> tuple[TargetImages, Labels]:
        """Return images, and the likeliest labels."""
        classes, images, labels = np.array(sorted(self.kernel.of_label)), [], []
        for start in range(0, max(1, len(features)), _ROWS_AT_ONCE):
            rows = self.rows(features[start : start + _ROWS_AT_ONCE])
            guesses = self.guesses(rows)
            if self.network is not None and self.weight:
                change = self.network(rows) - guesses
                guesses = guesses + np.float32(self.weight) * change
            images.append(guesses)
            labels.append(classes[rows[:, -len(classes) :].argmax(axis=1)])
        return np.concatenate(images), np.concatenate(labels)

    def rows(self, features: Features, left_out: LeftOut | None = None) -> Rows:
        """Return the network's input, one row per model; see `InputLayout`.

        Left-out predictions are for models that the kernel was fitted on.
        """
        votes = self.kernel.votes(features) if left_out is None else left_out.votes
        looks = self.kernel.looks(features, votes, left_out)
        flat = [look.reshape(len(look), -1) for look in looks]
        return np.concatenate([features, *flat, votes.astype(np.float32)], axis=1)

    def guesses(self, rows: Rows) -> TargetImages:
        """Return the kernel's last looks, which are part of the rows."""
        shape, num_labels = self.kernel.image_shape, len(self.kernel.of_label)
        looks = rows[:, -num_labels - _LOOKS * math.prod(shape) :]
        return looks[:, : math.prod(shape)].reshape(-1, *shape)


def _with_guesses(layout: InputLayout) -> InputLayout:
    """Return the layout of features, the kernel's looks and its votes."""
    return dataclasses.replace(layout, num_guesses=_LOOKS, num_votes=layout.num_labels)
