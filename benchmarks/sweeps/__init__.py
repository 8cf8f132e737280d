"""Grids of experiments for the papers' tables and figures.

python -m benchmarks.sweeps SWEEP[:SIZE] --workdir=DIR
"""
