"""Adversaries who have weights alone, for comparison with those who know all but one.

threat           what such an adversary is told and gives back
rows             their attacks by name
kkt/             points whose gradients make up theta (Haim et al. 2022)
bilevel/         points whose training ends at theta (Runkel et al. 2024)
model_inversion  points of extreme output, the baseline
candidates       metrics: from many candidates to counts with a control
homogeneous      their victims: bias-free ReLU networks of any depth
max_margin       the training of these victims, until near a KKT point
landscape/       where attacks end, by where they begin
results          rounding and rows of images, which the experiments share
commands         the experiments as `informed kkt` and `informed landscape`

Nothing imports this package but the command line, by name.
"""
