"""Checkpoints of a RecoNN's training: the newest one, whole or absent."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import orbax.checkpoint


def manager_of(workdir: Path) -> "orbax.checkpoint.CheckpointManager":
    """Orbax manager that keeps the newest checkpoint; a save is whole or absent."""
    import orbax.checkpoint as ocp  # a second, which the closed form doesn't need

    options = ocp.CheckpointManagerOptions(
        max_to_keep=1, enable_async_checkpointing=False
    )
    return ocp.CheckpointManager((workdir / "checkpoints").resolve(), options=options)


def save(
    manager: "orbax.checkpoint.CheckpointManager", state: Any, history: list
) -> None:
    """Checkpoint numbered by the epochs done."""
    import orbax.checkpoint as ocp

    manager.save(
        len(history),
        args=ocp.args.Composite(
            state=ocp.args.StandardSave(state), history=ocp.args.JsonSave(history)
        ),
    )


def restore(
    manager: "orbax.checkpoint.CheckpointManager", like: Any
) -> tuple[Any, list]:
    """State and history of the newest checkpoint."""
    import orbax.checkpoint as ocp

    restored = manager.restore(
        manager.latest_step(),
        args=ocp.args.Composite(
            state=ocp.args.StandardRestore(like), history=ocp.args.JsonRestore()
        ),
    )
    return restored["state"], restored["history"]
