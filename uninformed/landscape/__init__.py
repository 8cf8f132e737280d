"""Test whether attacks on weights alone end at training images only if started near.

Every attack of `runs` begins at the starts of `mixtures`. `study` does the whole, for
the commands `informed landscape` and `informed bilevel`.

Source: Runkel et al. 2024.
"""
