"""Work for the tests of launchers, made anew in every process."""

import os
import signal
import time
from pathlib import Path

import jax

import shadow
from informed.experiment.training_settings import TrainingConfig


def prepare(folder: str, *, die: str = "", hang: str = "", poison: int = -1) -> list:
    """Two small stores.

    Args:
      folder: of the stores.
      die: a file; the first process that finds it takes it away, and kills itself.
      hang: the same, but it hangs.
      poison: a block at which training raises, or -1.
    """
    pool = shadow.load("digits")
    split = shadow.split(pool, num_fixed=50, num_shadow=42, num_test=6, seed=0)
    victim = shadow.build_victim(
        shadow.VictimConfig(widths=(5,)), image_shape=(8, 8, 1), num_classes=10
    )
    descent = TrainingConfig(epochs=20).algorithm(victim)
    stores = []
    for role, targets in (("released", split.test), ("shadow", split.shadow)):
        factory = _Factory(
            algorithm=descent,
            fixed=split.fixed,
            key=jax.random.key(0),
            role=role,
            width=4,
            die=die,
            hang=hang,
            poison=poison,
        )
        store = shadow.Store.open(
            f"{folder}/{role}",
            factory,
            targets,
            block_size=4,
            positions=split.positions,
        )
        stores.append(store)
    return stores


class _Factory(shadow.Factory):
    """One that meets with accidents."""

    def __init__(self, *, die: str, hang: str, poison: int, **fields: object) -> None:
        super().__init__(**fields)  # type: ignore[arg-type]
        self.__dict__.update(_die=die, _hang=hang, _poison=poison)

    def train(self, targets: shadow.Examples, **options: object):
        """As always, unless an accident happens."""
        if self._poison * 4 in options["ids"]:
            raise FloatingPointError("a poisoned block")
        if _first_at(self._die):
            os.kill(os.getpid(), signal.SIGKILL)
        if _first_at(self._hang):
            time.sleep(1e6)
        return super().train(targets, **options)


def _first_at(file: str) -> bool:
    try:
        Path(file or "nowhere").unlink()
    except FileNotFoundError:
        return False
    return True
