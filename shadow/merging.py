"""Merge shadow stores that were filled apart, for `informed shadow merge`.

`informed.experiment.shadow_sets` calls it. The sources are only read.
"""

from collections.abc import Sequence

from shadow import bars
from shadow.places import Address
from shadow.store import Store


def merge(
    into: Address, sources: Sequence[Store], *, progress: bool = True
) -> dict[str, int]:
    """Copy every block that one store lacks and another has, each checked.

    Args:
      into: a store, whose blocks stay, or the address of a new one.
      sources: the stores to merge, at least one, of the same configuration and
        versions.
      progress: show a bar.
    Returns: counts of blocks: copied, there before, still missing.
    Raises:
      ConfigurationMismatchError, VersionMismatchError: a store has another record;
        raised before anything is copied.
      CorruptBlockError: a block of a source is corrupt.
      ValueError: no sources.
    """
    if not sources:
        raise ValueError("Expected at least one store to take blocks from, got none.")
    for source in sources[1:]:
        source.require(sources[0].record)
        source.require_theta_0(sources[0])
    store = Store.create_like(into, sources[0])
    missing = set(store.missing())
    before = store.num_blocks - len(missing)
    with bars.bar(total=len(missing), unit=" blocks", show=progress) as bar:
        for source in sources:
            for block in sorted(missing - set(source.missing())):
                store.take_block(block, source)
                missing.discard(block)
                bar.update()
    return {
        "copied": store.num_blocks - before - len(missing),
        "there": before,
        "missing": len(missing),
    }
