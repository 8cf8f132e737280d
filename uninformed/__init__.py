"""Attacks by adversaries who know no record, to compare with the informed one.

`informed.cli.run_commands` loads it for the commands `informed kkt`, `landscape` and
`bilevel`; docs/architecture.md says what each file is.
"""
