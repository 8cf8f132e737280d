"""Attack private training with a list of candidates: which of m was trained on?

THREAT: the adversary that differential privacy itself assumes. Knows the known records
D_-, the victim, the clipping norm C, the noise multiplier sigma and which of D_- took
part in which step; sees every iterate and every noisy sum of gradients; has a prior on
finitely many candidates.

A step reveals y = (noisy sum) - (clipped gradients of D_-): the target's clipped
gradient, if it took part, plus noise. Candidate i, with clipped gradient g_i, has

    a_i = <g_i, y>        n_i = |g_i|^2        x_i = (2 a_i - n_i) / (2 sigma^2 C^2)

and the exact log posterior, up to a constant, is log prior + a sum: over steps of x_i,
with full batches; of log(1 - q + q e^x_i), if the target takes part with probability q;
over epochs of log mean e^x_i, if it joins one random step of each. The score of Hayes
et al. (the sum of a over all steps, of full batches) leaves out n_i.

With a uniform prior on m candidates, success can't exceed the bound of kappa = 1/m:
`benchmarks/noisy_gradients.py` compares them. Runs and audits don't play this attack.

Source: Hayes, Mahloujifar and Balle 2023, Section 4; the posterior derived.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int
from scipy import special

from dp.gradient import PrivacyConfig
from shadow.data import Examples
from shadow.training import GradientDescent, cross_entropy
from shadow.training.private import PrivateSteps, participants
from shadow.victims import Params

# Runs trained at once; affects speed and memory only.
_TOGETHER = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evidence:
    """Evidence about the candidates from every step of some training runs.

    Attributes:
      products: (runs, steps, candidates), a of the module docstring.
      squared: (runs, steps, candidates), n.
    """

    products: Float[np.ndarray, "runs steps candidates"]
    squared: Float[np.ndarray, "runs steps candidates"]


def log_posterior(
    evidence: Evidence, privacy: PrivacyConfig
) -> Float[np.ndarray, "runs candidates"]:
    """Compute the log posterior of each candidate, up to a constant; uniform prior.

    The most probable candidate is the optimal guess.

    Args:
      privacy: the clipping norm, noise and sampling of the training.
    """
    assert privacy.clip_norm is not None
    variance = (privacy.noise_multiplier * privacy.clip_norm) ** 2
    products = np.asarray(evidence.products, float)
    exponent = (2 * products - evidence.squared) / (2 * variance)
    q = privacy.sampling_probability
    if privacy.sampling == "allocation":
        exponent = _by_epoch(exponent, privacy.steps_an_epoch)
    elif q < 1:
        exponent = np.logaddexp(np.log1p(-q), np.log(q) + exponent)
    return exponent.sum(axis=1)


def _by_epoch(
    exponent: Float[np.ndarray, "runs steps candidates"], steps: int
) -> Float[np.ndarray, "runs epochs candidates"]:
    """Compute log((1 / steps) sum of e^x) over each epoch's steps.

    Steps that an incomplete last epoch lacks count as e^0.
    """
    runs, made, candidates = exponent.shape
    whole = np.zeros((runs, -(-made // steps) * steps, candidates))
    whole[:, :made] = exponent
    by_epoch = whole.reshape(runs, -1, steps, candidates)
    return special.logsumexp(by_epoch, axis=2) - np.log(steps)


def play(
    algorithm: GradientDescent,
    fixed: Examples,
    candidates: Examples,
    *,
    init: Params,
    runs: int,
    key: Array,
) -> tuple[Evidence, Int[np.ndarray, " runs"]]:
    """Train on a random candidate and collect the steps' evidence, in many runs.

    Args:
      algorithm: private training (DP-SGD) of the network.
      candidates: the points that the target is drawn from, uniformly.
      init: the public initialisation.
      runs: number of independent trainings, with independent targets and noise.
    Returns: the evidence, and which candidate each run was trained on.
    """
    victim, privacy = algorithm.victim, algorithm.privacy
    privacy.require_noise()
    steps = PrivateSteps(victim=victim, privacy=privacy, losses=cross_entropy)
    optimise = algorithm.optimise
    images, labels = jnp.asarray(candidates.images), jnp.asarray(candidates.labels)
    data = jnp.asarray(fixed.images), jnp.asarray(fixed.labels)
    count = len(fixed) + 1

    def gradient(params: Params, image: Array, label: Array) -> Array:
        return victim.flatten(steps.clipped_sum(params, image[None], label[None], None))

    def run(key: Array) -> tuple[Array, Array, Array]:
        target_key, part_key, noise_key = jax.random.split(key, 3)
        chosen = jax.random.randint(target_key, (), 0, len(images))

        def step(state: tuple, number: Array) -> tuple[tuple, tuple[Array, Array]]:
            params, optimiser_state = state
            # The developer's step: one noisy sum of clipped gradients.
            part = participants(privacy, part_key, number, count)
            target = images[chosen], labels[chosen]
            noise = jax.random.fold_in(noise_key, number)
            noisy = steps.noisy_sum(params, data, target, part, noise)
            # The adversary's step: subtract the clipped gradients of D_-.
            known = steps.clipped_sum(
                params, *data, None if part is None else part[:-1]
            )
            revealed = victim.flatten(jax.tree.map(jnp.subtract, noisy, known))
            of_each = jax.vmap(gradient, (None, 0, 0))(params, images, labels)
            mean = jax.tree.map(lambda leaf: leaf / steps.divisor(count), noisy)
            change, optimiser_state = optimise.update(mean, optimiser_state, params)
            state = optax.apply_updates(params, change), optimiser_state
            return state, (of_each @ revealed, jnp.sum(of_each**2, axis=1))

        with jax.default_matmul_precision("highest"):
            state = (init, optimise.init(init))
            _, (products, squared) = jax.lax.scan(
                step, state, jnp.arange(algorithm.epochs)
            )
        return chosen, products, squared

    keys = jax.random.split(key, runs)
    chosen, products, squared = jax.jit(
        lambda keys: jax.lax.map(run, keys, batch_size=min(runs, _TOGETHER))
    )(keys)
    evidence = Evidence(products=np.asarray(products), squared=np.asarray(squared))
    return evidence, np.asarray(chosen)
