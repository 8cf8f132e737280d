"""Launchers of the workers that fill a shadow data set: here, on Slurm, on Ray.

`Store.fill`, `informed shadow` and runs call one. The store itself is the queue. A
worker takes an unfinished block, makes it and commits it; the first commit of a block
stays. So workers may die, be late or repeat work, and a launcher needs no state. To add
a launcher, write a `Launch` and register it by name (`shadow.register_launcher`).
"""

from shadow.launchers.launch import Launch, Prepare

__all__ = ["Launch", "Prepare"]
