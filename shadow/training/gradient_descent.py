"""The toolkit's training algorithm A: gradient descent on a network, a pure function.

Runs and users make a `GradientDescent`, `Factory` trains models by it, and attacks run
and differentiate it. The same inputs give the same bits on one kind of device that
repeats bits (`devices.repeats_bits`), at one width. Randomness comes in as arguments.

The fixed set D_- stays one array for all models. With z the target, the loss is
(sum over D_- + loss of z) / n, so under `vmap` over z the target is a separate term.
With full batches no model gets a copy of the data. Matrix products run in full float32:
one training point among thousands moves a weight by about 3e-3 of its size.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int32

from dp import domain, gradient
from dp.gradient import PrivacyConfig
from shadow import checks
from shadow.data import Examples
from shadow.precision import highest
from shadow.training import gram_form as gram
from shadow.training import grouped_gradients as grouped
from shadow.training import linearity
from shadow.training.algorithm import AnyArray, Capabilities, Draw, joined
from shadow.training.epochs import cross_entropy, epoch_batches
from shadow.training.private import PrivateSteps, participants
from shadow.training.seeds import SeedFamily
from shadow.victims import Params, Slice, Victim, traces
from shadow.victims.cnn_forms import Groups

Fixed = tuple[Float[AnyArray, "fixed height width channels"], Int32[AnyArray, " fixed"]]
Target = tuple[Float[AnyArray, "height width channels"], ArrayLike]
State = Any  # (params, state of the optimiser)
SHUFFLINGS = ("auto", "known", "unknown")
INITIALISATIONS = ("random", "seeded", "shared")
_RECORDED = ("epochs", "batch_size", "weight_decay", "initialisation", "shuffling")
REVISION = 4  # of A and its use of keys; see `shadow.records`


def revisions(configuration: Mapping[str, Any]) -> dict[str, int]:
    """Return the revisions that decide weights trained so, for records of stores.

    Args:
      configuration: that of a record; "algorithm" is that of `GradientDescent`,
        "training" that of an experiment.
    """
    revisions = {"training": REVISION}
    parts = (configuration.get(name) for name in ("algorithm", "training"))
    if any(isinstance(part, Mapping) and part.get("privacy") for part in parts):
        revisions["private_training"] = gradient.REVISION
    return revisions


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class GradientDescent:
    """Gradient descent on a victim, as an algorithm A.

    The loss is the mean cross-entropy over D_- + z, plus weight_decay/2 |theta|^2.

    Attributes:
      victim: the network that is trained.
      optimiser: any optax transformation of mean gradients into steps. If it is linear
        (`linearity`), like SGD with momentum, full batches train a dense first layer in
        the span of the data (`gram_form`).
      epochs: passes over D_- + z.
      batch_size: None for full batch (the paper's default); otherwise each epoch goes
        through D_- + z in a new random order; its last batch may be smaller.
      weight_decay: adds weight_decay * theta to the gradient, before the optimiser.
      initialisation: "shared", known to the adversary, or "random", one per model, or
        "seeded": one per model, as `jax.random.key(seed)` draws it from a secret
        integer of 32 bits, which is what training scripts do.
      shuffling: "known": one order of mini-batches for all models, which is public;
        "unknown": a new one per model, which is secret. No effect on full batches.
        With privacy it decides who knows which examples take part in which step:
        sampling amplifies privacy only while it is secret. "auto": "unknown" with
        privacy, "known" without.
      privacy: clipping and noise; an epoch is then one step. The sum of clipped
        gradients is divided by the expected size of the batch, which is public.
      form: the form in which the network is computed, one of `victim.forms`; None: the
        device's default. All forms compute the same function; weights agree within
        float32 rounding.
    Raises: FieldError: a field out of its range, or the victim has no such form.
    Source: Balle et al. 2022, Section V-A; Table V.
    """

    victim: Victim
    optimiser: optax.GradientTransformation = dataclasses.field(
        default_factory=lambda: optax.sgd(0.2, momentum=0.9)
    )
    epochs: int = 100
    batch_size: int | None = None
    weight_decay: float = 0.0
    initialisation: str = "shared"
    shuffling: str = "auto"
    privacy: PrivacyConfig = dataclasses.field(default_factory=PrivacyConfig)
    form: str | None = None

    def __init_subclass__(cls) -> None:
        raise TypeError(
            "GradientDescent can't be subclassed: training ignores what"
            f" {cls.__name__} overrides. Write a shadow.JaxFunction instead."
        )

    def __post_init__(self) -> None:
        if not isinstance(self.optimiser, optax.GradientTransformation):
            raise checks.FieldError(
                "optimiser",
                "Expected {} to be an optax transformation, such as optax.sgd(0.2), got"
                f" {self.optimiser!r}.",
            )
        require_schedule(self)
        for name in ("epochs", "batch_size"):
            value = getattr(self, name)  # perhaps of NumPy, which JSON doesn't take
            object.__setattr__(self, name, None if value is None else int(value))
        if self.form is not None:
            if not self.victim.forms:
                raise checks.FieldError(
                    "form",
                    f"{{}} is {self.form!r}, but this network has one form alone. Leave"
                    " it out.",
                )
            checks.choice("form", self.form, self.victim.forms)

    @property
    def order_is_public(self) -> bool:
        """Whether the order of mini-batches, or of sampling, is public."""
        if self.shuffling == "auto":
            return not self.privacy.on
        return self.shuffling == "known"

    @property
    def capabilities(self) -> Capabilities:
        """How A can be run, and who knows its randomness; the fields decide both."""
        drawn = {"initialisation"}
        if self.batch_size is not None or self.privacy.sampling_probability < 1:
            drawn.add("key")
        public = {
            "initialisation": self.initialisation == "shared",
            "key": self.order_is_public,
        }
        return Capabilities(
            batched=True,
            differentiable=True,
            in_span=self.in_span,
            random=frozenset(drawn),
            public=frozenset(name for name, known in public.items() if known),
            noisy=self.privacy.noise_multiplier > 0,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields alone: another process computes its own identity."""
        return {
            field.name: getattr(self, field.name) for field in dataclasses.fields(self)
        }

    @functools.cached_property
    def configuration(self) -> dict[str, Any]:
        """All that decides weights but the victim; JSON-able."""
        params = jax.eval_shape(self.victim.init, jax.random.key(0))
        state = jax.eval_shape(self.optimiser.init, params)
        digests = (
            traces.digest(self.optimiser.init, params),
            traces.digest(self.optimiser.update, params, state, params),
        )
        fields = {name: getattr(self, name) for name in _RECORDED}
        if self.privacy.on:
            fields["privacy"] = dataclasses.asdict(self.privacy)
            if self.privacy.sampling == "poisson":  # as stores had it before
                del fields["privacy"]["sampling"]
        return {"algorithm": fields | {"optimiser": checks.fingerprint(digests)}}

    @functools.cached_property
    def optimise(self) -> optax.GradientTransformation:
        """Return the optimiser, after the L2 penalty where there is one."""
        if not self.weight_decay:
            return self.optimiser
        return optax.chain(optax.add_decayed_weights(self.weight_decay), self.optimiser)

    def require_plain_penalty(self) -> None:
        """Raise FieldError if the optimiser moves weights where the gradient is zero.

        Attacks on stationary points need this: there the gradient of the loss with the
        penalty of `weight_decay` is zero, and that of another penalty isn't known.
        """
        params = jax.eval_shape(self.victim.init, jax.random.key(0))
        if not linearity.rests(self.optimiser, params):
            raise checks.FieldError(
                "optimiser",
                "Expected {} to leave weights where the gradient is zero; it decays"
                " them. Give the L2 penalty as weight_decay= instead.",
            )

    @functools.cached_property
    def in_span(self) -> bool:
        """Whether A keeps the first layer in the span of the data (see `gram_form`)."""
        if self.victim.first is None or self.batch_size is not None or self.privacy.on:
            return False
        params = jax.eval_shape(self.victim.init, jax.random.key(0))
        return linearity.is_linear(self.optimiser, params, steps=self.epochs)

    def layout(self, fixed: Examples) -> tuple[Slice, ...]:
        """Return the layout of theta, which is the victim's."""
        del fixed
        return self.victim.layout

    @highest
    def initialise(self, key: Array) -> Array:
        """Draw theta_0 of shape (params,) from a key."""
        if self.initialisation == "seeded":
            key = jax.random.key(jax.random.bits(key, dtype=jnp.uint32))
        return self.victim.flatten(self.victim.init(key))

    @property
    def seeds(self) -> SeedFamily:
        """The family of seeds that theta_0 is drawn from, if it is "seeded"."""
        return SeedFamily(draw=self.victim.init)

    def own_key(self, key: Array) -> Array:
        """Return the key itself, which is what training takes."""
        return key

    def quiet(self) -> "GradientDescent":
        """Return the same A without its noise; clipping and sampling stay."""
        privacy = dataclasses.replace(self.privacy, noise_multiplier=0.0)
        return dataclasses.replace(self, privacy=privacy)

    def __call__(
        self, fixed: Fixed, images: AnyArray, labels: AnyArray, draw: Draw
    ) -> Float[Array, " params"]:
        """See `Algorithm`. All targets but the last join the end of D_-."""
        if len(images) > 1:
            fixed = joined(fixed, images[:-1], labels[:-1], jnp)
        start = self.victim.unflatten(jnp.asarray(draw.start))
        target = (images[-1], labels[-1])
        trained = self.train(start, fixed, target, draw.key, draw.noise_key)
        return self.victim.flatten(trained)

    def losses(self, params: Params, images: AnyArray, labels: AnyArray) -> Array:
        """Compute the cross-entropy of each example, in nats."""
        return cross_entropy(self.victim.apply(params, images), jnp.asarray(labels))

    def target_loss(self, params: Params, target: Target) -> Array:
        """Compute the cross-entropy of z, in nats."""
        image, label = (jnp.asarray(part)[None] for part in target)
        return self.losses(params, image, label)[0]

    def update(self, state: State, gradient: Params) -> State:
        """Return the state after one step of the optimiser along a mean gradient."""
        params, optimiser_state = state
        step, optimiser_state = self.optimise.update(gradient, optimiser_state, params)
        return optax.apply_updates(params, step), optimiser_state

    def groups_for(self, num_fixed: int) -> Groups | None:
        """Return the form in groups of examples, if a step has more than one group."""
        groups = self.victim.form(self.form)
        if groups is None or self.privacy.on:
            return None
        count = min(self.batch_size or num_fixed, num_fixed)
        return groups if count > groups.size else None

    def mean_by_groups(
        self,
        groups: Groups,
        params: Params,
        examples: grouped.Cut,
        target: Target,
        has_target: Any,
    ) -> Params:
        """Return the mean gradient of examples of D_-, and of z if `has_target`."""
        total = grouped.gradient(groups, cross_entropy, params, examples)
        of_target = jax.grad(self.target_loss)(params, target)
        count = examples.weights.sum() + has_target
        return jax.tree.map(
            lambda one, other: (one + has_target * other) / count, total, of_target
        )

    def full_batch_epoch(self, state: State, fixed: Fixed, target: Target) -> State:
        """Return the state after one step on all of D_- + z."""

        def loss(params: Params) -> Array:
            total = self.losses(params, *fixed).sum() + self.target_loss(params, target)
            return total / (len(fixed[0]) + 1)

        return self.update(state, jax.grad(loss)(state[0]))

    def mini_batch_epoch(
        self, state: State, fixed: tuple[AnyArray, AnyArray], target: Target, key: Array
    ) -> State:
        """Return the state after all mini-batches; images are prepared if in groups."""
        images, labels = map(jnp.asarray, fixed)
        num_fixed = len(images)
        groups = self.groups_for(num_fixed)
        size = min(self.batch_size or 0, num_fixed + 1)
        batches = epoch_batches(key, num_fixed + 1, size)

        def step(state: State, members: Array) -> tuple[State, None]:
            from_fixed = members < num_fixed
            rows = jnp.where(from_fixed, members, 0)
            has_target = jnp.any(members == num_fixed)
            if groups is not None:
                weights = from_fixed.astype(images.dtype)
                batch = grouped.cut(groups.size, images[rows], labels[rows], weights)
                mean = self.mean_by_groups(groups, state[0], batch, target, has_target)
                return self.update(state, mean), None
            count = from_fixed.sum() + has_target

            def loss(params: Params) -> Array:
                losses = self.losses(params, images[rows], labels[rows])
                total = jnp.where(from_fixed, losses, 0).sum()
                return (total + has_target * self.target_loss(params, target)) / count

            return self.update(state, jax.grad(loss)(state[0])), None

        return jax.lax.scan(step, state, batches)[0]

    def private_step(
        self,
        state: State,
        fixed: Fixed,
        target: Target,
        part: Float[Array, " examples"] | None,
        noise_key: Array | None,
    ) -> State:
        """Return the state after a private step; `part` is that of `participants`."""
        private = PrivateSteps(
            victim=self.victim,
            privacy=self.privacy,
            losses=cross_entropy,
            form=self.form,
        )
        total = private.noisy_sum(state[0], fixed, target, part, noise_key)
        divisor = private.divisor(len(fixed[0]) + 1)
        return self.update(state, jax.tree.map(lambda leaf: leaf / divisor, total))

    def train_in_span(self, init: Params, fixed: Fixed, target: Target) -> Params:
        """Return the parameters after all full-batch epochs, trained by `gram_form`."""
        first = self.victim.first
        assert first is not None
        images = jnp.asarray(fixed[0]).reshape(len(fixed[0]), -1)
        targets = jnp.ravel(target[0])[None]
        w, rest = gram.split_first(first, init)
        square = images @ images.T
        trained = gram.coefficients(
            first,
            self.optimise,
            epochs=self.epochs,
            rest=rest,
            products=gram.products(w, images, targets),
            multiply=lambda fixed: fixed @ square,
            labels=jnp.asarray(fixed[1]),
            target_labels=jnp.asarray(target[1])[None],
        )
        moved = images.T @ trained.fixed.T + targets.T @ trained.targets.T
        return gram.join_first(first, trained.scale * w + moved, trained.rest)

    def train(
        self,
        init: Params,
        fixed: Fixed,
        target: Target,
        key: Array,
        noise_key: Array | None = None,
    ) -> Params:
        """Train from the victim's parameters; pure, for use under `jit` and `vmap`.

        Args:
          init: the victim's parameters, theta_0.
          fixed, target: images and labels of D_-, image and label of z.
          key: draws the order of mini-batches, or the examples of a private step; not
            used with full batches.
          noise_key: draws the noise of private training.
        Returns: the parameters.
        """
        if self.privacy.noise_multiplier and noise_key is None:
            raise ValueError("Private training needs noise_key.")
        epoch = self.stepper(fixed, target, key, noise_key)

        def step(state: State, number: Array) -> tuple[State, None]:
            return epoch(state, number), None

        with jax.default_matmul_precision("highest"):
            pixels = math.prod(self.victim.image_shape)
            if self.in_span and gram.pays(len(fixed[0]), pixels):
                return self.train_in_span(init, fixed, target)
            state = (init, self.optimise.init(init))
            # Reverse mode stores the state of every epoch, and nothing within one.
            kept = jax.checkpoint(step, prevent_cse=False)
            (params, _), _ = jax.lax.scan(kept, state, jnp.arange(self.epochs))
        return params

    def stepper(
        self, fixed: Fixed, target: Target, key: Array, noise_key: Array | None
    ) -> Callable[[State, Array], State]:
        """Return the function of an epoch, (state, epoch) -> state, not in the span."""
        groups = self.groups_for(len(fixed[0]))
        if groups is not None:
            images, labels = groups.prepare(fixed[0]), jnp.asarray(fixed[1])
            fixed = images, labels
            ones = jnp.ones(len(images), images.dtype)
            pieces = grouped.cut(groups.size, images, labels, ones)

        def epoch(state: State, number: Array) -> State:
            if self.privacy.on:
                part = participants(self.privacy, key, number, len(fixed[0]) + 1)
                noise = noise_key
                if noise is not None:
                    noise = jax.random.fold_in(noise, number)
                return self.private_step(state, fixed, target, part, noise)
            if self.batch_size is not None:
                order = jax.random.fold_in(key, number)
                return self.mini_batch_epoch(state, fixed, target, order)
            if groups is None:
                return self.full_batch_epoch(state, fixed, target)
            mean = self.mean_by_groups(groups, state[0], pieces, target, 1)
            return self.update(state, mean)

        return epoch


def require_schedule(settings: Any) -> None:
    """Raise FieldError where a field is out of range or contradicts another.

    Args:
      settings: a `GradientDescent`, or a run's settings with fields of these names.
    """
    checks.choice("initialisation", settings.initialisation, INITIALISATIONS)
    checks.choice("shuffling", settings.shuffling, SHUFFLINGS)
    domain.integer("epochs", settings.epochs, 0)
    checks.at_least("weight_decay", settings.weight_decay, 0)
    if settings.batch_size is not None:
        domain.integer("batch_size", settings.batch_size, 1)
    if settings.privacy.on and settings.batch_size is not None:
        raise checks.FieldError(
            "batch_size",
            f"{{}} is {settings.batch_size}, but private training samples batches by"
            " privacy.sampling_probability. Set it to None.",
        )
    if settings.privacy.on and not settings.epochs:
        raise checks.FieldError(
            "epochs",
            "Expected {} >= 1, got 0: an epoch is a step of private training, and"
            " without steps there is nothing to account for. Set it, or set"
            " privacy.clip_norm to None.",
        )
