"""Toom-Cook matrices for the CNN victim: a correlation in half the multiplications.

`cnn_forms` computes the second convolution by them, along rows. For a kernel g of four
taps and inputs x, the outputs

    y_o = sum_k g_k x_(o+k),    o = 0, 1, 2,    k = 0, ..., 3,

are y = A ((G g) * (B x)), with 6 multiplications instead of 12. The rounding error is
3.2 times that of the plain sum (root mean square, normal inputs, 64 channels). A and G
evaluate polynomials at 0, 1, -1, 1/2, -2 and infinity; B is the transposed inverse of
evaluating a product there (Winograd 1980). Rows of G and B are scaled by powers of two,
so that neither has large entries; that changes no rounding.
"""

import numpy as np

A = np.array(
    [
        [1, 1, 1, 1, 1, 0],
        [0, 1, -1, 1 / 2, -2, 0],
        [0, 1, 1, 1 / 4, 4, 1],
    ]
)
G = np.array(
    [
        [2, 0, 0, 0],
        [1, 1, 1, 1],
        [1, -1, 1, -1],
        [2, 1, 1 / 2, 1 / 4],
        [1 / 16, -1 / 8, 1 / 4, -1 / 2],
        [0, 0, 0, 2],
    ]
)
B = np.array(
    [
        [1 / 2, -3 / 4, -1, 3 / 4, 1 / 2, 0],
        [0, -1 / 3, 1 / 6, 5 / 6, 1 / 3, 0],
        [0, -1 / 3, 5 / 6, -1 / 6, -1 / 3, 0],
        [0, 16 / 15, 8 / 15, -16 / 15, -8 / 15, 0],
        [0, 8 / 15, -16 / 15, -8 / 15, 16 / 15, 0],
        [0, 1 / 2, -3 / 4, -1, 3 / 4, 1 / 2],
    ]
)
