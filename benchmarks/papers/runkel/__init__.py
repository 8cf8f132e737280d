"""Runkel et al. 2024: bilevel reconstruction, and its uncertainty."""
