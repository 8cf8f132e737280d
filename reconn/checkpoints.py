"""Checkpoints of a RecoNN's training: the newest one, complete or absent."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import orbax.checkpoint


def manager_of(workdir: Path) -> "orbax.checkpoint.CheckpointManager":
    """Return Orbax's manager, which keeps the newest checkpoint alone."""
    import orbax.checkpoint as ocp  # a second, which the closed form doesn't need

    options = ocp.CheckpointManagerOptions(
        max_to_keep=1, enable_async_checkpointing=False
    )
    return ocp.CheckpointManager((workdir / "checkpoints").resolve(), options=options)


def save(
    manager: "orbax.checkpoint.CheckpointManager", state: Any, history: list
) -> None:
    """Save a checkpoint, numbered by the epochs done."""
    import orbax.checkpoint as ocp

    manager.save(
        len(history),
        args=ocp.args.Composite(
            state=ocp.args.StandardSave(state), history=ocp.args.JsonSave(history)
        ),
    )


def restore(
    manager: "orbax.checkpoint.CheckpointManager", state: Any
) -> tuple[Any, list]:
    """Return state and history of the newest checkpoint; `state`, where there is none.

    Args:
      manager: of the folder.
      state: before the first epoch, whose shapes and places the checkpoint's takes.
    """
    import orbax.checkpoint as ocp

    if manager.latest_step() is None:
        return state, []
    restored = manager.restore(
        manager.latest_step(),
        args=ocp.args.Composite(
            state=ocp.args.StandardRestore(state), history=ocp.args.JsonRestore()
        ),
    )
    return restored["state"], restored["history"]
