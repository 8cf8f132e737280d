"""Train many models, each on the same fixed set of records and a target of its own.

A training algorithm A that is a function of JAX is trained in batches of fixed width,
one batch per device. On another number of cores or devices, or at another width,
weights agree to float32 rounding. Any other A trains one model at a time in each worker
process. `store` makes shadow models by it, runs and audits make the released ones.

The factory's key splits into a public part and one private stream per role (shadow or
released). The public part gives the shared initialisation and a known order of
mini-batches. A private stream gives what the adversary can't know, such as noise.
"""

import dataclasses
import functools
import json
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Float32
from tqdm import tqdm

from dp.allocation import RandomAllocation
from dp.mechanisms import Gaussian, PoissonGaussian
from shadow import checks
from shadow.data import Examples
from shadow.parallel import Runs
from shadow.threat import Knowledge, Release, publish
from shadow.training import GradientDescent, steps_taken
from shadow.training.algorithm import Algorithm, Draw
from shadow.views import EVERYTHING, View
from shadow.width import models_per_batch, program_bytes

ROLES = ("shadow", "released")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Factory:
    """Trains models of one role by A (`algorithm`) on D_- (`fixed`) + z for many z.

    Attributes:
      key: root of all randomness of training; see the module's docstring.
      role: "shadow" (the adversary's models) or "released" (those under attack).
      width: models trained at once on one device, or handed to processes at once; None
        chooses it from the machine (`shadow.width`).
      start: (params,), theta_0 as a store holds it; None: drawn from the key, whose
        last digits may differ on another kind of device.
    """

    algorithm: Algorithm = dataclasses.field(kw_only=False)
    fixed: Examples = dataclasses.field(kw_only=False)
    key: Array
    role: str = "shadow"
    width: int | None = None
    start: Float32[np.ndarray, " params"] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields, without compiled programs, for other processes."""
        fields = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(self)
        }
        return fields | {"key": np.asarray(jax.random.key_data(self.key))}

    def __setstate__(self, fields: dict[str, Any]) -> None:
        key = jax.random.wrap_key_data(fields["key"], impl="threefry2x32")
        self.__dict__.update(fields | {"key": key})

    def __post_init__(self) -> None:
        checks.choice("role", self.role, ROLES)
        if self.width is not None:
            width = checks.integer("width", self.width, 1)
            object.__setattr__(self, "width", width)
        self._check(self.fixed)
        public = self.algorithm.capabilities.public
        if self.start is not None and "initialisation" not in public:
            raise checks.FieldError(
                "start",
                "{} is given, but this training draws a theta_0 of its own. Leave it"
                " out, or set initialisation='shared'.",
            )
        implementation = str(jax.random.key_impl(self.key))
        if "threefry" not in implementation:
            raise checks.FieldError(
                "key",
                f"Expected {{}} of JAX's generator threefry2x32, got {implementation},"
                " by which a model would depend on those it is trained beside. Unset"
                " JAX_DEFAULT_PRNG_IMPL.",
            )

    @property
    def descent(self) -> GradientDescent:
        """A as the toolkit's gradient descent. Raises: ValueError: it is a user's."""
        if not isinstance(self.algorithm, GradientDescent):
            raise ValueError(
                "This looks into gradient descent; got a factory of another algorithm."
            )
        return self.algorithm

    @functools.cached_property
    def initialisation(self) -> Float32[np.ndarray, " params"] | None:
        """The public theta_0 of all models, or None."""
        if "initialisation" not in self.algorithm.capabilities.public:
            return None
        if self.start is not None:
            return self.start
        start = self.algorithm.initialise(_public_keys(self.key)[0])
        return None if start is None else np.asarray(start)

    @property
    def public_key(self) -> Any:
        """The public key of A's randomness, or None."""
        if "key" not in self.algorithm.capabilities.public:
            return None
        return self.algorithm.own_key(_public_keys(self.key)[1])

    @property
    def identity(self) -> dict[str, Any]:
        """All that decides the models' weights beside their data; JSON-able.

        A store keeps it, and refuses to be filled by a factory of another identity.
        """
        about = {
            "role": self.role,
            **self.algorithm.configuration,
            "key": checks.digest(np.asarray(jax.random.key_data(self.key))),
        }
        if hasattr(self.algorithm, "victim"):
            about["network"] = self.algorithm.victim.fingerprint
        return json.loads(json.dumps(about, default=float))

    @functools.cached_property
    def trained_with(self) -> dict[str, Any]:
        """What decides last digits: "width" on a device, and the network's "form"."""
        record: dict[str, Any] = {"width": self._width}
        if isinstance(self.algorithm, GradientDescent) and self.algorithm.form:
            record["form"] = self.algorithm.form
        return record

    @functools.cached_property
    def _width(self) -> int:
        return self.width or models_per_batch(self.algorithm, self.fixed)

    @property
    def models_at_once(self) -> int:
        """The number of models trained at once on all local devices."""
        return self._runs.together

    @functools.cached_property
    def program_bytes(self) -> int:
        """The memory of a batch on one device; 0 where A isn't batched."""
        if not self.algorithm.capabilities.batched:
            return 0
        return program_bytes(self.algorithm, self.fixed, self._width)

    @functools.cached_property
    def _runs(self) -> Runs:
        data = self.fixed.images, self.fixed.labels
        return Runs(self.algorithm, data, self.draw, width=self._width)

    @functools.cached_property
    def draw(self) -> Callable[[Any], Draw]:
        """The function from a model's number to its randomness, the secret part too."""
        algorithm = self.algorithm
        shared, known = self.initialisation, self.public_key
        private = jax.random.fold_in(self.key, 1 + ROLES.index(self.role))

        def draw(number: Any) -> Draw:
            own = jax.random.fold_in(private, number)
            init_key, own_key, noise_key = jax.random.split(own, 3)
            return Draw(
                start=algorithm.initialise(init_key) if shared is None else shared,
                key=algorithm.own_key(own_key) if known is None else known,
                noise_key=noise_key,
            )

        return draw

    def mechanism(
        self, *, relation: str = "zero_out", record: int | None = None
    ) -> Gaussian | PoissonGaussian | RandomAllocation:
        """Return the privacy mechanism of one record in a released model, for `dp`.

        Sampling amplifies privacy only while it is secret. Where the order is public,
        the record is protected by the noise of the steps that it takes part in, which
        this factory's key decides.

        Args:
          relation: "zero_out", "add_or_remove" or "replace_one".
          record: its position in D_- and the target, which is last (-1); None: the
            record that takes part most often.
        Returns: infinite noise where the record takes part in no step.
        Raises: ValueError: training is not gradient descent, or adds no noise.
        """
        descent = self.descent
        privacy, steps = descent.privacy, descent.epochs
        privacy.require_noise()
        sigma = privacy.noise_multiplier
        secret = privacy.sampling_probability == 1 or not descent.order_is_public
        if privacy.sampling == "allocation" and secret:
            # An unfinished epoch reveals no more than a whole one.
            return RandomAllocation(
                noise_multiplier=sigma,
                steps=privacy.steps_an_epoch,
                epochs=-(-steps // privacy.steps_an_epoch),
                relation=relation,
            )
        if secret:
            return PoissonGaussian(
                noise_multiplier=sigma,
                sampling_probability=privacy.drawn_probability,
                steps=steps,
                relation=relation,
            )
        taken = steps_taken(privacy, steps, self.public_key, len(self.fixed))
        steps = int(taken.max() if record is None else taken[record])
        return Gaussian(
            noise_multiplier=sigma if steps else float("inf"),
            steps=max(steps, 1),
            relation=relation,
        )

    def knowledge(self, public: Examples | None = None) -> Knowledge:
        """Return what the adversary knows by Definition 1 of Balle et al. 2022.

        How a seed becomes theta_0 is A's code, so that is known; the seed isn't.

        Args:
          public: side knowledge aux, such as the shadow targets.
        """
        algorithm, seeds = self.algorithm, None
        if isinstance(algorithm, GradientDescent):
            seeded = algorithm.initialisation == "seeded"
            seeds = algorithm.seeds if seeded else None
        return Knowledge(
            fixed=self.fixed,
            algorithm=algorithm,
            initialisation=self.initialisation,
            training_key=self.public_key,
            public=public,
            seeds=seeds,
        )

    def release(
        self,
        targets: Examples,
        view: View = EVERYTHING,
        *,
        ids: np.ndarray | None = None,
    ) -> Release:
        """Train the models that are attacked, one per target, and publish a view.

        Their role is "released", whatever this factory's, so that they share no private
        randomness with shadow models. Releases of several calls share theirs, unless
        `ids` differ. Args and raises: as `train`.
        """
        developer = self
        if self.role != "released":
            developer = dataclasses.replace(self, role="released")
        return publish(developer.train(targets, ids=ids), view)

    def train(
        self,
        targets: Examples,
        *,
        ids: np.ndarray | None = None,
        bar: tqdm | None = None,
    ) -> Float[np.ndarray, "models params"]:
        """Train one model per target, and return its theta.

        Args:
          targets: one z a model, at least one.
          ids: (models,), the numbers of the models, by default 0, 1, ... in every
            call; private randomness, such as noise, depends on them alone.
          bar: progress bar, moved on by the models done.
        Returns: theta of each model, in the precision that A trains in.
        Raises:
          FloatingPointError: training diverged (NaN or infinite weights).
          ValueError: no targets, or images or classes that aren't the victim's; a
            network whose logits of an image depend on those beside it.
        """
        if not len(targets):
            raise ValueError("Expected at least one target to train a model on.")
        self._check(targets)
        if self._mixes_images:
            raise checks.FieldError(
                "victim",
                "Expected {} to classify each image by itself: the logits of one change"
                " with another beside it, as with batch normalisation. Training adds up"
                " gradients of single records.",
            )
        ids = np.arange(len(targets)) if ids is None else np.asarray(ids)
        if ids.shape != (len(targets),) or ids.dtype.kind not in "iu":
            raise checks.FieldError(
                "ids",
                f"Expected {{}} to be {len(targets)} whole numbers, one per target, got"
                f" shape {ids.shape} of {ids.dtype}.",
            )
        checks.require("ids", ids, (ids >= 0) & (ids < 2**31), "in [0, 2**31)")
        trained = self._runs(
            targets.images[:, None],
            targets.labels[:, None],
            ids,
            on_rows=lambda count: None if bar is None else bar.update(count),
            placed=True,
        )
        diverged = ~np.isfinite(trained).all(axis=1)
        if diverged.any():
            raise FloatingPointError(
                f"Training diverged for {diverged.sum()} of {len(trained)} {self.role}"
                f" models, such as number {ids[diverged.argmax()]}. Lower"
                " learning_rate, or leave these targets out."
            )
        return trained

    @functools.cached_property
    def _mixes_images(self) -> bool:
        """Whether logits of a user's network depend on the images beside one."""
        victim = getattr(self.algorithm, "victim", None)
        if victim is None or victim.groups is not None:
            return False
        rng = np.random.default_rng(0)  # logits of theta_0 may all be zero
        params = victim.unflatten(rng.normal(size=victim.num_params).astype(np.float32))
        images = rng.random((2, *victim.image_shape), np.float32)
        alone, beside = (
            np.asarray(victim.apply(params, images[:n]))[0] for n in (1, 2)
        )
        return bool(np.abs(alone - beside).max() > 1e-2 * np.abs(beside).max())

    def _check(self, examples: Examples) -> None:
        """Raise unless shape and classes are those of D_- and the victim."""
        wanted = getattr(self.algorithm, "victim", self.fixed)
        if examples.image_shape != wanted.image_shape:
            raise ValueError(
                f"Expected images of shape {wanted.image_shape} for this victim,"
                f" got {examples.image_shape} in {examples.name}."
            )
        if examples.num_classes != wanted.num_classes:
            raise ValueError(
                f"Expected {wanted.num_classes} classes, those of this victim, got"
                f" {examples.num_classes} in {examples.name}."
            )


def _public_keys(key: Array) -> Array:
    """Return the keys that may be public: (of theta_0, of A's randomness)."""
    return jax.random.split(jax.random.fold_in(key, 0), 2)
