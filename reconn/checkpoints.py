"""Checkpoints of a RecoNN's training: the newest one, complete or absent."""

from pathlib import Path
from typing import Any

import orbax.checkpoint as ocp


def manager_of(workdir: Path) -> ocp.CheckpointManager:
    """Return Orbax's manager, which keeps the newest checkpoint alone."""
    options = ocp.CheckpointManagerOptions(
        max_to_keep=1, enable_async_checkpointing=False
    )
    return ocp.CheckpointManager((workdir / "checkpoints").resolve(), options=options)


def save(manager: ocp.CheckpointManager, state: Any, history: list) -> None:
    """Save a checkpoint, numbered by the epochs done."""
    args = ocp.args.Composite(
        state=ocp.args.StandardSave(state), history=ocp.args.JsonSave(history)
    )
    manager.save(len(history), args=args)


def restore(manager: ocp.CheckpointManager, state: Any) -> tuple[Any, list]:
    """Return state and history of the newest checkpoint, placed as `state` is.

    Where there is none, `state` is returned: that before the first epoch.
    """
    if manager.latest_step() is None:
        return state, []
    args = ocp.args.Composite(
        state=ocp.args.StandardRestore(state), history=ocp.args.JsonRestore()
    )
    restored = manager.restore(manager.latest_step(), args=args)
    return restored["state"], restored["history"]
