"""Linear algebra for kernel ridge regression: by NumPy, or on a faster accelerator.

`ridge` calls these functions; its square matrices have a row and a column per shadow
model. Products of features are in float32, all else in float64. The work, the free
memory and one timing choose the device, by which the last digits vary.
"""

import functools
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Float, Float32

from shadow import devices

_TRIED = 1000  # rows of a matrix that NumPy and the accelerator both invert, timed
# Multiplications. NumPy has done so many, in one to three seconds, before XLA has
# compiled the program for an accelerator. XLA compiles one for every shape, and labels
# differ in their numbers of models: ten of CIFAR-10 took a minute on an H100's host.
_LITTLE = 1e11
_ARRAYS = 4  # memory of an inverse on an accelerator, in matrices, about

Square = Float[np.ndarray, "rows rows"]
Values = Float[np.ndarray, "rows columns"]


def products(
    rows: Float32[np.ndarray, "rows features"],
    columns: Float32[np.ndarray, "columns features"],
) -> Float32[np.ndarray, "rows columns"]:
    """Return the products rows columns^T, in float32."""
    products = len(rows) * len(columns)
    needed = rows.nbytes + columns.nbytes + 4 * products
    if not _on_device(float(products) * rows.shape[1], needed):
        return rows @ columns.T
    return np.asarray(jnp.matmul(rows, columns.T, precision="highest"))


def inverse(matrix: Square) -> Square:
    """Return the inverse of a positive definite matrix."""
    if not _on_device(float(len(matrix)) ** 3, _ARRAYS * matrix.nbytes):
        return np.linalg.inv(matrix)
    return _in_float64(jnp.linalg.inv, matrix)


def solve(matrix: Square, values: Values) -> Values:
    """Return matrix^-1 values; may overwrite the positive definite matrix."""
    if not _on_device(float(len(matrix)) ** 3, _ARRAYS * matrix.nbytes):
        factor = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True)
        return scipy.linalg.cho_solve(factor, values)
    solving = functools.partial(jax.scipy.linalg.solve, assume_a="pos")
    return _in_float64(solving, matrix, values)


def solve_with_diagonal(
    matrix: Square, values: Values
) -> tuple[Values, Float[np.ndarray, " rows"]]:
    """Return matrix^-1 values and the diagonal of matrix^-1; may overwrite the matrix.

    From the Cholesky factor L: the diagonal is the squared length of L^-1's columns.
    """
    if _on_device(float(len(matrix)) ** 3, _ARRAYS * matrix.nbytes):
        inverted = _in_float64(jnp.linalg.inv, matrix)
        return inverted @ values, np.diag(inverted)
    factor = scipy.linalg.cholesky(matrix, lower=True, overwrite_a=True)
    solution = scipy.linalg.cho_solve((factor, True), values)
    (invert,) = scipy.linalg.get_lapack_funcs(("trtri",), (factor,))
    inverse_factor, _ = invert(factor, lower=1, overwrite_c=1)
    return solution, np.einsum("ij,ij->j", inverse_factor, inverse_factor)


def _in_float64(function: Callable, *arrays: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        result = np.asarray(
            function(*(jnp.asarray(array, jnp.float64) for array in arrays))
        )
    # NumPy and SciPy raise this error; XLA returns NaN.
    if not np.isfinite(result).all():
        raise np.linalg.LinAlgError("The matrix is singular, or not positive definite.")
    return result


def _on_device(work: float, needed: int) -> bool:
    """Return whether an accelerator is faster for so many multiplications and bytes."""
    if devices.cache_bound() or work < _LITTLE or not _is_faster():
        return False
    return needed <= devices.free_bytes() // 2


@functools.cache
def _is_faster() -> bool:
    """Return whether an accelerator inverts faster in float64; measured once."""
    matrix = np.eye(_TRIED) + 1.0 / _TRIED

    def on_device() -> None:
        _in_float64(jnp.linalg.inv, matrix)

    on_device()  # compiles
    seconds = []
    for invert in (on_device, lambda: np.linalg.inv(matrix)):
        started = time.perf_counter()
        invert()
        seconds.append(time.perf_counter() - started)
    return seconds[0] < seconds[1]
