"""Attacks by adversaries who know no record, to compare with the informed one.

No other package imports this one; `informed kkt|landscape|bilevel|attacks` load it.
docs/architecture.md says what each file is.
"""
