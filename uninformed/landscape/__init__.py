"""Test whether attacks on weights alone end at training images only if started near.

mixtures    starts: mixtures of training images, other images and noise
runs        every attack from every start
quantities  how well each outcome fits the weights, and its distance from images
conclusions the conclusions of Runkel et al., checked on these runs
detection   whether an adversary can recognise recovered training images
maps        pictures: maps, curves, images
study       the whole of `informed landscape`

Source: Runkel et al. 2024.
"""
