"""Attacks by adversaries who have only the weights, to compare with the informed one.

rows             the threat model, and the attacks by name
candidates       match many candidates with training images, with a control
kkt/             points whose gradients make up theta (Haim et al. 2022)
bilevel          points whose training ends at theta (Runkel et al. 2024)
model_inversion  points of extreme output, the baseline
homogeneous      their victims: bias-free ReLU networks of any depth
max_margin       the training of these victims, until near a KKT point
pieces           checkpoints for long loops of steps
landscape/       where attacks end, as a function of where they start
montage          pictures of images in rows

Only the command line imports this package, by name.
"""
