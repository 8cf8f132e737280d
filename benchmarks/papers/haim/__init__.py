"""Haim et al. 2022: reconstruction from weights alone.

Victims are those of their public code (first layer at 1e-4, the others as PyTorch
begins them), trained by the flow of plain descent at another speed to the losses that
the paper prints. Images of CIFAR-10 are vehicles against animals; they are those after
the first 1,000 of each class, because on the first hundreds settings were chosen.
"""
