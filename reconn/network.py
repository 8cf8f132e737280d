"""The reconstructor network (RecoNN) of Balle et al. 2022: its settings and training.

`trainer` calls `Network.learn`; `refined` trains its correction by it. Both see shadow
models alone, of which the last ones validate. Training writes a line per epoch to
metrics.jsonl. It saves a checkpoint after an epoch if the last one is half a minute old
(older where saving would exceed about a tenth of the run time), and after the last
epoch. An interrupted run resumes from its checkpoint with the same batches. On a CPU it
ends with the same weights as an uninterrupted run; on a GPU the last digits differ,
because it adds numbers in varying order.
"""

import dataclasses
import functools
import json
import math
import time
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from reconn import modules, objective
from reconn.feed import Batches
from reconn.input_layout import InputLayout
from reconn.method import Features, Method, Run, TargetImages
from reconn.modules import Mlp, TransposedCnn
from reconn.objective import Loss
from reconn.optimisers import adam_cosine
from reconn.placement import Placement
from reconn.steps import LOWER_THE_RATE, Steps
from shadow import bars, checks, files, views
from shadow.victims.traces import digest

# Incremented when the same configuration gives other results; see `shadow.records`.
REVISION = 4
_PREDICT_BATCH = 1024  # models per call of a trained network; bounds memory
# Least time between checkpoints: in seconds, and as a multiple of the time that saving
# takes, 9 s for 113 million parameters, their moments and the best (an epoch: 10 s).
_CHECKPOINT_SECONDS, _CHECKPOINT_SHARE = 30.0, 10.0


@dataclasses.dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A trained network, callable on features.

    Attributes:
      apply: (params, features) -> images.
      placement: the devices that hold the parameters; None: one device.
      program: the serialised inference program, see `modules.exported`; None: the
        builder, an `Mlp` or `TransposedCnn`, rebuilds it.
    """

    apply: Callable[[Any, Array], Array]
    params: Any
    placement: Placement | None = None
    program: bytes | None = None

    def __call__(self, inputs: Features) -> TargetImages:
        """Return the images, computed batch by batch."""
        parts = []
        for i in range(0, len(inputs), _PREDICT_BATCH):
            images = _apply(self.apply, self.params, inputs[i : i + _PREDICT_BATCH])
            if self.placement is not None:
                images = self.placement.gathered(images)
            parts.append(np.asarray(images))
        return np.concatenate(parts)

    def labelled(self, inputs: Features) -> tuple[TargetImages, None]:
        """Return the images; a network recovers no labels."""
        return self(inputs), None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network(Method):
    """Settings of a RecoNN and its training. The defaults suit few shadow models.

    Attributes:
      module: a Haiku function (inputs, *, training) -> images, a pair (init, apply), or
        a builder: `reconn.mlp()` (Table V), `reconn.transposed_cnn()` (Table VII) or
        `reconn.residual_cnn()`; see `reconn.modules`.
      optimiser: one of optax; or a function (total_steps, steps_per_epoch) that returns
        one, such as `reconn.adam_cosine()` or `reconn.rmsprop()` (Table V).
      batch_size: shadow models per step.
      kept: "best": the network of the epoch with the least validation error; "last":
        that of the last epoch, as in Table V.
    """

    kind = "network"
    revisions: ClassVar = {"network": REVISION, "view": views.REVISION}
    module: Any = dataclasses.field(default_factory=Mlp)
    optimiser: Any = dataclasses.field(default_factory=adam_cosine)
    epochs: int = 40
    batch_size: int = 128
    loss: Loss = dataclasses.field(default_factory=Loss)
    kept: str = "best"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.choice("kept", self.kept, ("best", "last"))
        modules.require(
            self.module,
            "build",
            "a Haiku function, a pair (init, apply) or a builder such as reconn.mlp()",
        )
        name = getattr(self.optimiser, "__name__", "")
        package = getattr(self.optimiser, "__module__", "").split(".")[0]
        if name and package in ("optax", "reconn"):  # a function, not what it returns
            raise checks.FieldError(
                "optimiser",
                f"Expected {{}} to be an optimiser: call {package}.{name} with its"
                f" learning rate, such as {package}.{name}(learning_rate=1e-3).",
            )
        if not (callable(self.optimiser) or hasattr(self.optimiser, "update")):
            raise checks.FieldError(
                "optimiser",
                "Expected {} to be an optimiser of optax or a function (total_steps,"
                f" steps_per_epoch) that returns one, got {self.optimiser!r}.",
            )

    def identity(self, layout: InputLayout, num_train: int) -> dict[str, Any]:
        """Return all settings, module and optimiser as hashes of what they compute."""
        network = modules.build(self.module, layout)
        optimiser = self.optimiser_for(num_train // min(self.batch_size, num_train))
        params = network.shapes
        update = params, jax.eval_shape(optimiser.init, params), params
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return fields | {
            "loss": dataclasses.asdict(self.loss),
            "module": modules.identity(self.module, layout),
            "optimiser": checks.fingerprint(
                (digest(optimiser.init, params), digest(optimiser.update, *update))
            ),
        }

    def optimiser_for(self, steps_per_epoch: int) -> optax.GradientTransformation:
        """Return the optimiser for training with this many steps per epoch."""
        if hasattr(self.optimiser, "update"):
            return self.optimiser
        return self.optimiser(self.epochs * steps_per_epoch, steps_per_epoch)

    def learn(self, run: Run) -> TrainedNetwork:
        """Train the network for all epochs; return the best or last, as `kept` says.

        Raises: FloatingPointError: a loss became NaN or infinite; says where.
        """
        import orbax.checkpoint as ocp  # takes a second

        network, program = modules.build(self.module, run.layout), None
        if run.kept and type(self.module) not in (Mlp, TransposedCnn):
            program = modules.exported(network, run.layout.num_inputs)
        initial = run.start and modules.filled(network, run.start, "start")
        placement, train = Placement.of(run.devices), slice(0, run.num_train)
        batches = Batches(
            run.features[train], run.images[train], batch_size=self.batch_size
        )
        steps = Steps(
            network,
            self.optimiser_for(batches.steps),
            self.loss,
            batches,
            epochs=self.epochs,
            key=run.key,
            placement=placement,
        )
        state = steps.start(initial)
        placement.meet("reconn")
        options = ocp.CheckpointManagerOptions(
            max_to_keep=1, enable_async_checkpointing=False
        )
        folder = (run.workdir / "checkpoints").resolve()
        with ocp.CheckpointManager(folder, options=options) as manager:
            history: list[dict[str, Any]] = []
            if manager.latest_step() is not None:
                args = ocp.args.Composite(
                    state=ocp.args.StandardRestore(state),
                    history=ocp.args.JsonRestore(),
                )
                kept = manager.restore(manager.latest_step(), args=args)
                state, history = kept["state"], kept["history"]
            saved_at, interval = time.monotonic(), _CHECKPOINT_SECONDS
            with bars.bar(
                total=self.epochs,
                initial=len(history),
                desc="RecoNN",
                unit="epoch",
                show=run.progress,
            ) as bar:
                for epoch in range(len(history), self.epochs):
                    started = time.monotonic()
                    state, train_loss = steps.epoch(state, epoch)
                    trained = TrainedNetwork(network.apply, state["params"], placement)
                    truth = jnp.asarray(run.images[run.num_train :])
                    guesses = jnp.asarray(trained(run.features[run.num_train :]))
                    error = float(jnp.mean(jnp.square(guesses - truth)))
                    if not math.isfinite(error):
                        raise FloatingPointError(
                            f"The RecoNN's validation error became {error} after epoch"
                            f" {epoch + 1}. {LOWER_THE_RATE}"
                        )
                    loss = objective.pixels(guesses, truth, self.loss)
                    line = {
                        "epoch": epoch + 1,
                        "train_loss": train_loss,
                        "validation_loss": float(loss),
                        "validation_mse": error,
                        "seconds": round(time.monotonic() - started, 3),
                    }
                    history.append(line)
                    if error < float(state["best_mse"]):
                        state |= {
                            "best": jax.tree.map(jnp.copy, state["params"]),
                            "best_mse": placement.tree(jnp.float32(error)),
                        }
                    run.still_ours()
                    lines = (json.dumps(e, allow_nan=False) + "\n" for e in history)
                    files.write_bytes(
                        run.workdir / "metrics.jsonl", "".join(lines).encode()
                    )
                    run.on_epoch()
                    bar.update()
                    bar.set_postfix(validation_mse=f"{error:.5f}")
                    began = time.monotonic()
                    if began - saved_at > interval or epoch + 1 == self.epochs:
                        args = ocp.args.Composite(
                            state=ocp.args.StandardSave(state),
                            history=ocp.args.JsonSave(history),
                        )
                        manager.save(len(history), args=args)
                        saved_at = time.monotonic()
                        took = saved_at - began
                        interval = max(_CHECKPOINT_SECONDS, _CHECKPOINT_SHARE * took)
        best = placement.gathered(state["best" if self.kept == "best" else "params"])
        if placement.several_processes:
            best = jax.tree.map(np.asarray, best)
        return TrainedNetwork(network.apply, best, program=program)


@functools.partial(jax.jit, static_argnums=0)
def _apply(apply: Callable[[Any, Array], Array], params: Any, x: Array) -> Array:
    return apply(params, x)
