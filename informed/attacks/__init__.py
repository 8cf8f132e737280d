"""Attacks: each file one, each a callable (release, knowledge, *, key)."""
