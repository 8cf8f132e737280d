"""One of several workers that know nothing of each other, as of a Slurm array.

Each makes its own share of the blocks, and then sweeps what is left, so that the
workers that live finish what the dead ones leave. Any worker may die, be started again,
or run twice; to resume is to start them again.
"""

import dataclasses
import random
from collections.abc import Callable

from shadow import bars, checks
from shadow.launchers.work import Prepare


@dataclasses.dataclass(frozen=True, kw_only=True)
class Share:
    """Worker `index` of `count`.

    Attributes:
      index: 0 <= index < count.
      count: the number of workers, at least 1.
    Raises: ValueError: numbers out of range.
    """

    index: int
    count: int

    def __post_init__(self) -> None:
        checks.at_least("count", self.count, 1)
        if not 0 <= self.index < self.count:
            raise checks.FieldError(
                "index",
                f"Expected {{}} in [0, {self.count}), got {self.index}: workers are"
                " counted from 0.",
            )

    @classmethod
    def parse(cls, text: str) -> "Share":
        """Of "3/16".

        Raises: ValueError: it isn't two numbers, or they are out of range.
        """
        index, slash, count = text.partition("/")
        if not (slash and index.strip().isdigit() and count.strip().isdigit()):
            raise ValueError(
                f"Expected a worker such as 3/16 (index/count), got {text!r}."
            )
        return cls(index=int(index), count=int(count))

    def run(
        self,
        prepare: Prepare,
        *,
        progress: bool = True,
        on_block: Callable[[], None] = lambda: None,
    ) -> None:
        """See `Launch`."""
        # Not seeded by the index: whoever is started twice shall not work twice.
        order = random.SystemRandom()
        for work in prepare():
            factory, store = work.factory, work.store
            together = factory.blocks_at_once(store)
            with bars.bar(
                total=len(store),
                desc=f"{factory.role} models of all workers",
                unit=" models",
                show=progress,
            ) as bar:
                while missing := store.missing():
                    left = sum(len(range(*store.block_range(b))) for b in missing)
                    bar.update(len(store) - left - bar.n)
                    own = [b for b in missing if b % self.count == self.index]
                    some = own or order.sample(missing, min(together, len(missing)))
                    factory.fill(
                        store,
                        work.targets,
                        blocks=some[:together],
                        progress=False,
                        on_block=on_block,
                    )
                bar.update(len(store) - bar.n)
