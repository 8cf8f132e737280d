"""Who starts workers on a shadow data set; the store is the queue.

launch   the protocol of launchers
local    this process makes all blocks
share    one of several workers that know nothing of each other, as of a Slurm array
tasks    Ray tasks, one per block
table    launchers by name

A worker takes a block that nobody has finished, makes it and commits it; the first
commit of a block stays. So workers may die, come late or do the same work twice, and a
launcher has nothing to remember. A new one is one file with one `Launch`, and a name
that it is registered by.
"""

from shadow.launchers.launch import Launch, Prepare

__all__ = ["Launch", "Prepare"]
