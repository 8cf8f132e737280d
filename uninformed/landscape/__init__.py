"""Where attacks on weights alone end, as a function of where they begin.

mixtures    starts: training images, others, noise, and what lies between them
runs        the attacks from all of them
quantities  how near ends are to theta, which an adversary sees, and to images
conclusions what Runkel et al. conclude, on these runs
detection   could an adversary tell a training image from another one?
maps        pictures: maps, curves, images
study       all of `informed landscape`

Source: Runkel et al. 2024.
"""
