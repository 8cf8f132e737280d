"""The newest checkpoint of `steps.Steps`' state, from which `network` resumes."""

from pathlib import Path
from typing import Any

import orbax.checkpoint as ocp


def open_manager(workdir: Path) -> ocp.CheckpointManager:
    """Open Orbax's manager of `workdir/checkpoints`, which keeps only the newest."""
    options = ocp.CheckpointManagerOptions(
        max_to_keep=1, enable_async_checkpointing=False
    )
    return ocp.CheckpointManager((workdir / "checkpoints").resolve(), options=options)


def save(manager: ocp.CheckpointManager, state: Any, history: list) -> None:
    """Save the state of training and its history, which has an entry per epoch."""
    args = ocp.args.Composite(
        state=ocp.args.StandardSave(state), history=ocp.args.JsonSave(history)
    )
    manager.save(len(history), args=args)


def restore(manager: ocp.CheckpointManager, state: Any) -> tuple[Any, list]:
    """Return state and history of the newest checkpoint, on the devices of `state`.

    Return `state` unchanged and an empty history where there is none.
    """
    if manager.latest_step() is None:
        return state, []
    args = ocp.args.Composite(
        state=ocp.args.StandardRestore(state), history=ocp.args.JsonRestore()
    )
    restored = manager.restore(manager.latest_step(), args=args)
    return restored["state"], restored["history"]
