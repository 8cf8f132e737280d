"""Attacks of the informed adversary, mostly (release, knowledge, *, key) -> guess.

`registry` lists them by name, and `informed.play` runs them for runs and audits. They
get what is released and what the adversary knows, and are never told the target.
"""
