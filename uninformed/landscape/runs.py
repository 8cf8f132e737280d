"""Run attacks on weights alone from many starts, for `study`; batches are kept on disk.

The *landscape* of an attack on weights alone is where it ends as a function of where it
begins. A *start* is one initial image per training point, the same for all attacks. It
may contain training images, which no adversary has (`mixtures`).

`bilevel` and `matching` see the weights of an affine victim or of one with a hidden
layer, and know its labels; `kkt` sees a homogeneous network on the same images, because
other victims have no KKT point of margin maximisation.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shadow import bars, checks, records
from shadow.records import Record
from uninformed import bilevel, homogeneous, kkt
from uninformed import max_margin as margin
from uninformed.bilevel import BilevelConfig, Lower
from uninformed.homogeneous import HomogeneousConfig
from uninformed.kkt import KktConfig
from uninformed.kkt import experiment as kkt_experiment
from uninformed.kkt.experiment import Uninformed
from uninformed.kkt.training_images import PointsConfig, VictimImages
from uninformed.landscape.mixtures import Sets, StartsConfig
from uninformed.max_margin import MarginConfig

METHODS = ("bilevel", "matching", "kkt")
# From a batch of starts (starts, points, height, width, channels) to those fields of
# `Outcomes` that have one entry per start.
BatchAttack = Callable[[np.ndarray], Mapping[str, Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BilevelVictimConfig:
    """The victim of `bilevel` and `matching`.

    Attributes:
      kind: "affine", or "one_hidden" for a network with one hidden layer.
      width: number of units of the hidden layer.
      decay: mu, the weight decay in the training of victim and attack alike.
      smoothness: beta of the activation softplus(beta z) / beta.
      steps: largest number of L-BFGS steps when the victim is trained, from theta
        uniform in [0, 1 / sqrt(inputs)]. Affine victims have a closed form.
      attack_steps: largest number of L-BFGS steps of each lower solve of the attack.
    """

    kind: str = "affine"
    width: int = 128
    decay: float = 1e-2
    smoothness: float = 20.0
    steps: int = 10_000
    attack_steps: int = 100

    def __post_init__(self) -> None:
        checks.choice("kind", self.kind, ("affine", "one_hidden"))
        for field in ("width", "steps", "attack_steps"):
            checks.at_least(field, getattr(self, field), 1)
        # Raises if fields contradict each other.
        self.lower(1)

    def lower(self, inputs: int) -> Lower:
        """Return the lower problem of the attack."""
        return Lower(
            inputs=inputs,
            width=None if self.kind == "affine" else self.width,
            smoothness=self.smoothness,
            decay=self.decay,
            steps=self.attack_steps,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LandscapeConfig:
    """The configuration of a landscape; all randomness derives from `seed`.

    Attributes:
      data: the training images; as many held-out images are the partition (`mixtures`).
      methods: the attacks to run, among `METHODS`.
      victim: the victim of `bilevel` and `matching`.
      attack: settings of `bilevel` and `matching`; lower problems begin at theta.
      at_once: starts per batch; affects memory and speed, not results.
      network, training: the victim of `kkt`.
      kkt: settings of the KKT attack, which is run with as many candidates as there
        are training points and without restarts.
    """

    seed: int = 0
    data: PointsConfig = dataclasses.field(
        default_factory=lambda: PointsConfig(name="cifar10")
    )
    starts: StartsConfig = dataclasses.field(default_factory=StartsConfig)
    methods: tuple[str, ...] = METHODS
    victim: BilevelVictimConfig = dataclasses.field(default_factory=BilevelVictimConfig)
    attack: BilevelConfig = dataclasses.field(default_factory=BilevelConfig)
    at_once: int = 40
    network: HomogeneousConfig = dataclasses.field(default_factory=HomogeneousConfig)
    training: MarginConfig = dataclasses.field(default_factory=MarginConfig)
    kkt: KktConfig = dataclasses.field(default_factory=KktConfig)

    def __post_init__(self) -> None:
        checks.at_least("the number of methods", len(self.methods), 1)
        for method in self.methods:
            checks.choice("methods", method, METHODS)
        checks.at_least("at_once", self.at_once, 1)
        for field, value, allowed, why in (
            ("data.classes", self.data.classes, "binary", "victims have one output"),
            ("data.mean_known", self.data.mean_known, True, "starts are images"),
            ("network.outputs", self.network.outputs, 1, "victims have one output"),
            ("kkt.restarts", self.kkt.restarts, 0, "restarts would leave the start"),
            ("kkt.coefficients", self.kkt.coefficients, "multipliers", "no others"),
        ):
            if value != allowed:
                raise checks.FieldError(
                    field,
                    f"Expected {{}} to be {allowed!r} here ({why}), got {value!r}.",
                )


@dataclasses.dataclass(frozen=True, eq=False)
class Outcomes:
    """The outcomes of one method from every start.

    Attributes:
      images: (starts, points, height, width, channels).
      distance: the misfit that an adversary sees, (starts,): |theta(x) - theta*|^2, for
        `kkt` |theta - sum|^2.
      size: |theta*|^2.
      loss: the loss of each image at theta*, (starts, points): half its squared error,
        for `kkt` the squared relative deviation of its output from the margin.
      slope_norm: |grad E| at the end of the last lower solve, (starts,); 0 for `kkt`.
      basis: orthonormal rows that span the first layer's weights, (rank, inputs); None
        for affine victims, and where the weights span all inputs.
      centre: the point subtracted from all points before the first layer, (inputs,).
    """

    images: np.ndarray
    distance: np.ndarray
    size: float
    loss: np.ndarray
    slope_norm: np.ndarray
    basis: np.ndarray | None
    centre: np.ndarray


def run(
    config: LandscapeConfig,
    method: str,
    sets: Sets,
    starts: Mapping[str, np.ndarray],
    workdir: Path,
    *,
    progress: bool = True,
) -> Outcomes:
    """Return the outcomes of one method from all starts, run or read.

    Raises: ConfigurationMismatchError: the folder holds another landscape.
    """
    fields = dataclasses.asdict(config)
    decisive = {k: v for k, v in fields.items() if k not in ("methods", "at_once")}
    record = Record.of(
        decisive | {"content": sets.fingerprint()},
        bilevel=bilevel.REVISION,
        homogeneous=homogeneous.REVISION,
        kkt=kkt.REVISION,
        margin=margin.REVISION,
    )
    records.claim(workdir / "landscape.json", record, f"The landscape in {workdir}")
    images = np.stack(list(starts.values()))
    parts: list[dict[str, np.ndarray]] = []
    first, total = 0, len(images)
    # The KKT attack is in float32; lower problems need float64 for their tolerance.
    double = jax.enable_x64(method != "kkt")
    with double, jax.default_matmul_precision("highest"):
        # Steps are counted for each start. Batches that are on disk are read, not run.
        steps = (config.kkt if method == "kkt" else config.attack).steps
        with bars.bar(
            total=total * steps, desc=method, unit=" steps", show=progress
        ) as bar:
            # Called with a number of steps that a whole batch has made.
            def tick(count: Any) -> None:
                bar.update(int(count) * min(config.at_once, total - first))

            if method == "kkt":
                attack, victim = _kkt(config, sets, workdir, tick, progress=progress)
            else:
                attack, victim = _bilevel(
                    config, method, sets, workdir, record, tick if progress else None
                )
            while first < total:
                batch = images[first : first + config.at_once]
                file = workdir / "ends" / f"{method}_{first:04d}.npz"
                make = functools.partial(attack, batch)
                parts.append(records.kept(file, record, f"The batch in {file}", make))
                # An earlier call may have made larger batches.
                jax.effects_barrier()
                first += len(parts[-1]["images"])
                bar.update(first * steps - bar.n)
    joined: Any = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    return Outcomes(**joined, **victim)


def _bilevel(
    config: LandscapeConfig,
    method: str,
    sets: Sets,
    workdir: Path,
    record: Record,
    tick: Callable[[Any], None] | None,
) -> tuple[BatchAttack, dict[str, Any]]:
    """Prepare `bilevel` or `matching`: the attack, and what `Outcomes` has of theta."""
    flat = sets.truth.reshape(len(sets.truth), -1).astype(np.float64)
    inputs = flat.shape[1]
    lower = config.victim.lower(inputs)
    victim_problem = dataclasses.replace(lower, steps=config.victim.steps)
    key = jax.random.split(jax.random.key(config.seed))[0]
    init = inputs**-0.5 * jax.random.uniform(key, (lower.num_params,), jnp.float64)
    targets = jnp.asarray(sets.signs, jnp.float64)

    def train() -> Mapping[str, Any]:
        solve = jax.jit(lambda x: bilevel.solve(victim_problem, x, targets, init))
        return {"theta": solve(jnp.asarray(flat)).theta}

    file = workdir / f"{config.victim.kind}.npz"
    theta = records.kept(file, record, f"The victim in {file}", train)["theta"]
    released = jnp.asarray(theta)
    solver, attack_problem = bilevel.attack, lower
    # Gradient matching solves the lower problem once, at its end, so to convergence.
    if method == "matching":
        solver, attack_problem = bilevel.matching, victim_problem

    @jax.jit
    @jax.vmap
    def from_start(points: jax.Array) -> tuple[bilevel.Ended, jax.Array]:
        ended = solver(
            config.attack, attack_problem, released, points, targets, released, tick
        )
        errors = lower.outputs(released, ended.points) - targets
        return ended, 0.5 * errors**2

    def attack(batch: np.ndarray) -> Mapping[str, Any]:
        points = jnp.asarray(batch.reshape(len(batch), *flat.shape), jnp.float64)
        ended, loss = from_start(points)
        return {
            "images": np.asarray(ended.points).reshape(batch.shape),
            "distance": ended.distance,
            "slope_norm": ended.slope_norm,
            "loss": loss,
        }

    basis = None
    if config.victim.kind == "one_hidden":
        width = config.victim.width
        basis = kkt.span(theta[: inputs * width].reshape(inputs, width))
    return attack, {
        "size": float(np.sum(theta**2)),
        "basis": basis,
        "centre": np.zeros(inputs),
    }


def _kkt(
    config: LandscapeConfig,
    sets: Sets,
    workdir: Path,
    tick: Callable[[Any], None],
    *,
    progress: bool,
) -> tuple[BatchAttack, dict[str, Any]]:
    """Prepare the KKT attack on a homogeneous network of mean-subtracted images."""
    images = VictimImages(
        sets.truth, sets.labels, sets.held_out, np.zeros(len(sets.held_out), np.int32)
    )
    points = len(sets.truth)
    experiment = Uninformed(
        seed=config.seed,
        data=config.data,
        victim=config.network,
        training=config.training,
        attack=dataclasses.replace(config.kkt, candidates=points),
    )
    file = workdir / "network.npz"
    network = kkt_experiment.victim(experiment, images, file, progress=progress)
    mean = images.mean.ravel()
    key = jax.random.fold_in(jax.random.key(config.seed), 2)  # kkt_experiment.ATTACKS
    size = float(homogeneous.squared_norm(network))

    def attack(batch: np.ndarray) -> Mapping[str, Any]:
        starts = jnp.asarray(batch.reshape(len(batch), points, -1) - mean)
        keys = jnp.stack([key] * len(batch))
        kkt_runs = kkt.attack_many(
            experiment.attack, network, keys=keys, mean=mean, starts=starts, tick=tick
        )
        ends = np.stack([kkt_run.points for kkt_run in kkt_runs])
        outputs = [homogeneous.apply(network, jnp.asarray(each))[:, 0] for each in ends]
        leads = np.stack(outputs) * sets.signs
        margins = np.median(leads, axis=1, keepdims=True)
        return {
            "images": (ends + mean).reshape(batch.shape),
            "distance": np.array([kkt_run.residual**2 for kkt_run in kkt_runs]) * size,
            "slope_norm": np.zeros(len(batch)),
            "loss": (leads / margins - 1) ** 2,
        }

    return attack, {
        "size": size,
        "basis": kkt.span(np.asarray(network[0].w)),
        "centre": mean,
    }
