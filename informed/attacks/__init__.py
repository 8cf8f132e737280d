"""The informed adversary's attacks: callables (release, knowledge, *, key) -> guess."""
