"""Attacks (release, knowledge, *, key) -> guess: `registry` lists, `play` runs them."""
