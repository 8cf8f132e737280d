"""The launcher of one of several independent workers, such as a Slurm array's tasks.

Workers don't communicate. Every worker makes its share of the blocks, and then blocks
that are still missing, so that live workers finish the work of dead ones. Any worker
may die, be restarted or run twice; to resume, start the workers again. `informed shadow
--worker=3/16` and `shadow.Share(3, of=16)` make it.
"""

import dataclasses
import random
from collections.abc import Callable

from shadow import bars, checks
from shadow.launchers.launch import Prepare


@dataclasses.dataclass(frozen=True)
class Share:
    """A launcher: this process is worker `index` of several, as in `Share(3, of=16)`.

    Raises: ValueError: not 0 <= index < of.
    """

    index: int
    of: int

    def __post_init__(self) -> None:
        checks.at_least("of", self.of, 1)
        if not 0 <= self.index < self.of:
            raise checks.FieldError(
                "index",
                f"Expected {{}} in [0, {self.of}), got {self.index}: workers are"
                " counted from 0.",
            )

    @classmethod
    def parse(cls, text: str) -> "Share":
        """Read a share such as "3/16". Raises: ValueError: it isn't one."""
        index, slash, of = text.partition("/")
        if not (slash and index.strip().isdigit() and of.strip().isdigit()):
            raise ValueError(
                f"Expected a worker such as 3/16 (index/count), got {text!r}."
            )
        return cls(int(index), of=int(of))

    def __call__(
        self,
        prepare: Prepare,
        *,
        progress: bool = True,
        on_block: Callable[[], None] = lambda: None,
    ) -> None:
        """Fill this worker's share, then whatever is missing; see `Launch`."""
        # Not seeded by the index, so that a worker started twice doesn't repeat work.
        order = random.SystemRandom()
        for store in prepare():
            with bars.bar(
                total=len(store),
                desc=f"{store.factory.role} models of all workers",
                unit=" models",
                show=progress,
            ) as bar:
                while missing := store.missing():
                    models = sum(len(range(*store.block_range(b))) for b in missing)
                    bar.update(len(store) - models - bar.n)
                    share = [b for b in missing if b % self.of == self.index]
                    blocks = share or order.sample(missing, len(missing))
                    store.fill(
                        blocks=blocks[: store.blocks_at_once],
                        progress=False,
                        on_block=on_block,
                    )
                bar.update(len(store) - bar.n)
