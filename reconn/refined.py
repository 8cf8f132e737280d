"""A network that corrects the kernel's guesses.

Kernel regression knows from the start which weights move together, but nothing of what
targets look like: its errors are blur and ghosts. A network learns that from the same
shadow models. It sees the kernel's two looks, its votes for each label and the weights
that are pictures, and predicts what is missing. It is trained on guesses of models that
had been left out of the kernel, as a release is.

Validation models decide how much of the correction counts, down to nothing: so the
result is never expected to be worse than the kernel's.
"""

import dataclasses
from typing import Any

import haiku as hk
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32

from reconn import kernel
from reconn.kernel import Kernel, KernelRegression, LeftOut
from reconn.method import JUDGED, Features, Labels, Method, Run, TargetImages
from reconn.network import Network, TrainedNetwork
from reconn.objective import Loss
from reconn.optimisers import adam_cosine
from reconn.residual import ResidualCnn
from reconn.sight import Sight
from shadow import checks

# Grows when the same configuration would give something else; see `shadow.records`.
REVISION = 1
_LOOKS = 2
_ROWS_AT_ONCE = 2048


@dataclasses.dataclass(frozen=True, kw_only=True)
class Refined(Method):
    """Kernel regression, then a network. The defaults were chosen on MNIST.

    Attributes:
      kernel: the regression whose guesses are corrected.
      module: the correction: a Haiku function (images, facts, *, training) ->
        correction, a pair (init, apply) of the same arguments, or `residual_cnn()`.
        images (models, height, width, channels) are the kernel's last look, its first
        one, and the weights that are pictures; facts (models, facts) are the other
        weights and the votes for each label; correction has the shape of a target.
      optimiser, epochs, batch_size, loss: as in `Network`.
    """

    kind = "refined"
    kernel: Kernel = dataclasses.field(default_factory=Kernel)
    module: Any = dataclasses.field(default_factory=ResidualCnn)
    optimiser: Any = dataclasses.field(
        default_factory=lambda: adam_cosine(learning_rate=1e-3, weight_decay=1e-2)
    )
    epochs: int = 12
    batch_size: int = 64
    loss: Loss = dataclasses.field(default_factory=lambda: Loss(mae=0.0))

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in dataclasses.fields(Method):
            value = getattr(self.kernel, field.name)
            if value != field.default:
                raise checks.FieldError(
                    f"kernel.{field.name}",
                    f"Expected {{}} to be left at {field.default!r}, got {value!r}: set"
                    " it on Refined, whose shadow models the kernel gets.",
                )
        self.network()

    def network(self) -> Network:
        """Return the settings of the network's training; checks them."""
        shared = {f.name: getattr(self, f.name) for f in dataclasses.fields(Method)}
        return Network(
            module=Corrected(self.module),
            optimiser=self.optimiser,
            epochs=self.epochs,
            batch_size=self.batch_size,
            loss=self.loss,
            **shared,
        )

    @property
    def revisions(self) -> dict[str, int]:
        """Revisions of both parts and of what joins them."""
        parts = self.kernel.revisions | self.network().revisions
        return parts | {self.kind: REVISION}

    def identity(self, sight: Sight, num_train: int) -> dict[str, Any]:
        """Return the settings of both parts."""
        seen = _seen(sight, votes=1)[0]
        return {
            "kernel": dataclasses.asdict(self.kernel),
            "network": self.network().identity(seen, num_train),
        }

    def learn(self, run: Run) -> "Refinement":
        """Fit the kernel, train the network on left-out guesses, and weigh both."""
        regression, left_out = kernel.learned(self.kernel, run, leave_out=True)
        sight, columns = _seen(run.sight, votes=len(regression.of_label))
        refinement = Refinement(kernel=regression, columns=columns)
        rows = np.empty((len(run.features), sight.num_inputs), np.float32)
        train, unseen = slice(0, run.num_train), slice(run.num_train, None)
        rows[train] = refinement.rows(run.features[train], left_out)
        rows[unseen] = refinement.rows(run.features[unseen])
        network = self.network().learn(
            dataclasses.replace(run, features=rows, sight=sight)
        )
        judged = slice(run.num_train, run.num_train + JUDGED)
        guesses = rows[judged, len(columns) :][:, : run.images[0].size]
        guesses = guesses.reshape(-1, *run.images.shape[1:])
        share = _share(guesses, network(rows[judged]), run.images[judged])
        return dataclasses.replace(refinement, network=network, share=share)


@dataclasses.dataclass(frozen=True)
class Corrected:
    """The module of `Network` that adds a correction to the first guess of a row.

    Attributes:
      module: `Refined.module`.
    """

    convolutional = True
    module: Any

    def build(self, sight: Sight) -> tuple[Any, Any]:
        """Return (init, apply) of rows."""
        module = self.module
        if hasattr(module, "correction"):
            module = module.correction(sight.image_shape)
        init, apply = module if isinstance(module, tuple) else hk.transform(module)

        def started(key: Array, rows: Array, *, training: bool) -> Any:
            return init(key, sight.images(rows), sight.facts(rows), training=training)

        def corrected(
            params: Any, key: Array | None, rows: Array, *, training: bool
        ) -> Array:
            images, facts = sight.images(rows), sight.facts(rows)
            guess = images[..., : sight.image_shape[2]]
            images = guess + apply(params, key, images, facts, training=training)
            return images if training else jnp.clip(images, 0, 1)

        return started, corrected


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Refinement:
    """A kernel regression and the network that corrects it.

    Attributes:
      kernel: makes the guesses.
      columns: (features,), positions of the features that the network sees.
      network: makes images of `rows`; None before it is trained.
      share: of the correction, in [0, 1]; 0 leaves the kernel's guess.
    """

    kernel: KernelRegression
    columns: np.ndarray
    network: TrainedNetwork | None = None
    share: float = 1.0

    def __call__(self, features: Features) -> TargetImages:
        """Return one image per model, pixels in [0, 1]."""
        return self.labelled(features)[0]

    def labelled(self, features: Features) -> tuple[TargetImages, Labels]:
        """Return images, and the labels as far as theta tells them."""
        rows, known = self.rows(features), np.array(sorted(self.kernel.of_label))
        labels = known[rows[:, -len(known) :].argmax(axis=1)]
        shape = self.kernel.image_shape
        start = len(self.columns)
        guesses = rows[:, start : start + int(np.prod(shape))].reshape(-1, *shape)
        if self.network is None or not self.share:
            return guesses, labels
        share = np.float32(self.share)
        return guesses + share * (self.network(rows) - guesses), labels

    def rows(
        self, features: Features, left_out: LeftOut | None = None
    ) -> Float32[np.ndarray, "models inputs"]:
        """Return what the network sees; see `Sight`.

        Args:
          features: of the models.
          left_out: given where these are the models that the kernel was fitted on.
        """
        votes = self.kernel.votes(features) if left_out is None else left_out.votes
        looks = self.kernel.looks(features, votes, left_out)
        flat = [look.reshape(len(look), -1) for look in looks]
        parts = [features[:, self.columns], *flat, votes]
        return np.concatenate(parts, axis=1).astype(np.float32)


def _seen(sight: Sight, *, votes: int) -> tuple[Sight, np.ndarray]:
    """Return what the network sees of the kernel's sight, and the features in it."""
    columns, pictures = np.arange(sight.num_features), sight.pictures
    if pictures is not None:
        columns, pictures = pictures.alone()
    seen = Sight(
        num_features=len(columns),
        image_shape=sight.image_shape,
        pictures=pictures,
        guesses=_LOOKS,
        votes=votes,
    )
    return seen, columns


def _share(guesses: TargetImages, refined: TargetImages, truth: TargetImages) -> float:
    """Return the share of the correction with the least squared error.

    0 where that isn't better than the guesses by two standard errors, over the models.
    """
    change = (refined - guesses).astype(np.float64).reshape(len(truth), -1)
    wanted = (truth - guesses).astype(np.float64).reshape(len(truth), -1)
    length = float(np.sum(change**2))
    if len(truth) < 2 or not length:
        return 0.0
    share = float(np.clip(np.sum(change * wanted) / length, 0.0, 1.0))
    gains = np.sum(wanted**2 - (share * change - wanted) ** 2, axis=1)
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    return share if gains.mean() > 2 * error else 0.0
