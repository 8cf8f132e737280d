"""Experiments of papers on attacks that know the weights alone; nobody imports them.

kkt         `informed kkt`
landscape/  `informed landscape`
"""
