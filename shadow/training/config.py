"""Hyper-parameters of the toolkit's own A, as one frozen dataclass."""

import dataclasses

import optax

from dp.gradient import PrivacyConfig
from shadow import checks

OPTIMISERS = ("adam", "sgd")
SHUFFLINGS = ("auto", "known", "unknown")
INITIALISATIONS = ("random", "seeded", "shared")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Hyper-parameters of A. The loss is the mean cross-entropy over D_- + z.

    Attributes:
      optimiser: "sgd" (gradient descent, with momentum) or "adam".
      learning_rate: step size, > 0.
      momentum: the momentum of "sgd", in [0, 1); v <- momentum v + g, theta <- theta -
        lr v.
      epochs: passes over D_- + z.
      batch_size: None for full batch (the paper's default); otherwise each epoch goes
        through D_- + z in a new random order; its last batch may be smaller.
      weight_decay: adds weight_decay * theta to the gradient (an L2 penalty).
      initialisation: "shared", known to the adversary, or "random", one per model, or
        "seeded": one per model, as `jax.random.key(seed)` draws it from a secret
        integer of 32 bits, which is what training scripts do.
      shuffling: "known": one order of mini-batches for all models, which is public;
        "unknown": a new one per model, which nobody is told. No effect on full batches.
        With privacy it decides who knows which examples take part in which step:
        sampling amplifies privacy only while it is secret. "auto": "unknown" with
        privacy, "known" without.
      privacy: clipping and noise; an epoch is then one step. The sum of clipped
        gradients is divided by the expected size of the batch, which is public.
    """

    optimiser: str = "sgd"
    learning_rate: float = 0.2
    momentum: float = 0.9
    epochs: int = 100
    batch_size: int | None = None
    weight_decay: float = 0.0
    initialisation: str = "shared"
    shuffling: str = "auto"
    privacy: PrivacyConfig = dataclasses.field(default_factory=PrivacyConfig)

    def __post_init__(self) -> None:
        checks.choice("optimiser", self.optimiser, OPTIMISERS)
        checks.choice("initialisation", self.initialisation, INITIALISATIONS)
        checks.choice("shuffling", self.shuffling, SHUFFLINGS)
        checks.at_least("epochs", self.epochs, 0)
        checks.at_least("weight_decay", self.weight_decay, 0)
        if self.batch_size is not None:
            checks.at_least("batch_size", self.batch_size, 1)
        if self.privacy.on and self.batch_size is not None:
            raise checks.FieldError(
                "batch_size",
                f"{{}} is {self.batch_size}, but private training samples batches by"
                " privacy.sampling_probability. Set it to None.",
            )
        if self.privacy.on and not self.epochs:
            raise checks.FieldError(
                "epochs",
                "Expected {} >= 1, got 0: an epoch is a step of private training, and"
                " without steps there is nothing to account for. Set it, or set"
                " privacy.clip_norm to None.",
            )
        checks.positive("learning_rate", self.learning_rate)
        checks.within("momentum", self.momentum, 0, 1)

    @property
    def order_is_public(self) -> bool:
        """Whether the order of mini-batches, or who is sampled when, is public."""
        if self.shuffling == "auto":
            return not self.privacy.on
        return self.shuffling == "known"


def optimiser(config: TrainingConfig) -> optax.GradientTransformation:
    """The optax optimiser of a configuration."""
    if config.optimiser == "sgd":
        step = optax.sgd(config.learning_rate, momentum=config.momentum or None)
    else:
        # eps_root keeps the derivative of Adam at zero gradients from being NaN, and is
        # too small to change a weight.
        step = optax.adam(config.learning_rate, eps_root=1e-30)
    if config.weight_decay:
        return optax.chain(optax.add_decayed_weights(config.weight_decay), step)
    return step
