"""Attacks by adversaries who know no record, to compare with the informed one.

knowledge        the threat model
rows             the attacks by name
candidates       match and count the candidates that an attack returns
kkt/             points whose gradients make up the weights (Haim et al. 2022)
bilevel          points whose training ends at the weights (Runkel et al. 2024)
model_inversion  points of extreme output, the baseline
homogeneous      the networks attacked: ReLUs of any depth with few biases or none
weights_file     dense networks that another program trained, from a file
max_margin       the training of these networks, until near a KKT point
pieces           checkpoints for long loops of steps
landscape/       where attacks end, by where they start
montage          pictures of images in rows

No other package imports this one; `informed kkt|landscape|bilevel|attacks` load it.
"""
