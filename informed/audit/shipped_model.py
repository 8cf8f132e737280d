"""One real release and one record of its training set: can it be read out?

An audit trains models of its own. Here the model is the one that was shipped, its
weights read from a file, and the adversary knows all of its training set but one
record, in the order in which it was trained on. First the training is run again with
the record: unless that gives the released weights, the training function, its key or
the data aren't those of the release, and nothing said of it would mean anything.
"""

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from informed import metrics
from informed.attacks.inversion import Inversion
from informed.attacks.quantisation import deviations
from informed.audit.auditing import load
from informed.audit.contract import load_training
from informed.audit.engine import engine_of, theta_of
from informed.audit.subject import Subject
from shadow import checks, data, released, weights
from shadow.threat import Knowledge, Reconstruction, publish
from shadow.training.foreign import precision_in_force

# How far a training again may end, of the released weights' length, by what products
# are rounded to. Simulated (tanh networks, digits, NumPy; no GPU): TF32 moves theta by
# 7e-5 to 1.8e-4, bfloat16 by 5e-4 to 1.3e-3, another record by 2e-3 and more.
TOLERANCES = {"float32": 1e-4, "tf32": 1e-3, "bfloat16": 5e-3}
# Weights in a file of fewer digits lie so many of their rounding's deviations away, at
# most: the length over many weights is one deviation, closely.
_ROUNDED = 1.5


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ReadRecord:
    """What the inversion of a release says of one record.

    Attributes:
      apart: distance between the release and the training run again, over its length.
      products: what the release's products are taken to be rounded to.
      tolerance: how far `apart` could be for that, and for the digits of the file.
      guess: the reconstruction of the record, with its certificate.
      mse: mean squared error of the guess, per pixel.
      without_release_mse: mean squared error of the nearest other record.
    """

    apart: float
    products: str
    tolerance: float
    guess: Reconstruction
    mse: float
    without_release_mse: float


def invert(
    train: str | Callable,
    source: Any,
    release: str | os.PathLike,
    *,
    record: int,
    seed: int = 0,
    label: str | None = None,
    data_dir: str | None = None,
    version: str | None = None,
    products: str | None = None,
) -> ReadRecord:
    """Invert the training of a released model for one of its records.

    Args:
      train, source, label, data_dir, version: see `informed.audit`; the
        release was trained on all the data, in their order.
      release: a file of weights; see `weights.read`.
      record: the position of the record that the adversary isn't told.
      seed: of training; a JAX key `jax.random.key(seed)`, or the seed itself.
      products: what the matrix products of the shipped training were rounded to, of
        `TOLERANCES`; None: what JAX's default is on this device.
    Raises: ValueError: the release isn't what training gives.
    """
    products = default_products() if products is None else products
    checks.choice("products", products, TOLERANCES)
    tolerance = TOLERANCES[products]
    contract = load_training(train, version=version)
    examples, table = load(source, label=label, data_dir=data_dir)
    checks.within("record", record, 0, len(examples))
    others = np.delete(np.arange(len(examples)), record)
    split = data.Split(
        fixed=examples.take(others),
        shadow=examples.take(others),
        test=examples.take(np.array([record])),
        fixed_indices=others,
        shadow_indices=others,
        test_indices=np.array([record]),
    )
    subject = Subject(
        contract=contract,
        split=split,
        held_out=split.fixed,
        table=table,
        seed=seed,
        position=record,
    )
    result = subject.call().train(*subject.training_set(0), seed)
    theta = _matched(released.parts(result), weights.read(release))
    again = theta_of(result)
    apart = float(np.linalg.norm(again - theta) / np.linalg.norm(theta))
    published = publish(theta[None])
    rounding = deviations(published, 0)
    if rounding is not None:
        tolerance += float(_ROUNDED * np.linalg.norm(rounding) / np.linalg.norm(theta))
    if not apart <= tolerance:
        raise ValueError(
            f"Training on this data with this seed gives weights that are {apart:.3g}"
            f" of their length away from the release; {tolerance:.3g} is allowed for"
            f" products in {products}. Is it the same data, order, seed, code and"
            " version of the libraries? If it was trained with coarser products, as"
            " JAX's default on a GPU: --products tf32."
        )
    # An int can't be traced as itself.
    engine = "processes" if contract.takes == "seed" else engine_of(subject)[0]
    subject = dataclasses.replace(subject, engine=engine)
    knowledge = Knowledge(
        fixed=split.fixed,
        algorithm=subject.algorithm(),
        training_key=seed if engine == "processes" else jax.random.key(seed),
    )
    guess = Inversion()(published, knowledge, key=jax.random.key(seed + 1))
    image = np.clip(guess.images, 0, 1)
    nearest = metrics.nearest_neighbours(split.test.images, split.fixed.images).mse
    return ReadRecord(
        apart=apart,
        products=products,
        tolerance=tolerance,
        guess=guess,
        mse=float(metrics.mse(split.test.images, image)[0]),
        without_release_mse=float(nearest[0]),
    )


def default_products() -> str:
    """Return what products are rounded to here, unless somebody says else.

    JAX's default precision is TF32 on a GPU, bfloat16 on a TPU and float32 on a CPU.
    """
    named = precision_in_force()
    if named in ("highest", "float32"):
        return "float32"
    if named in ("bfloat16", "tensorfloat32"):
        return "bfloat16" if named == "bfloat16" else "tf32"
    return {"gpu": "tf32", "tpu": "bfloat16"}.get(jax.default_backend(), "float32")


def _matched(parts: list[released.Part], arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Put the release's arrays in the order in which training returns them.

    Raises: FieldError: they aren't the same arrays; names what differs.
    """
    shipped = {released.bare(name): array for name, array in arrays.items()}
    wanted = {part.name: tuple(np.shape(part.array)) for part in parts}
    shapes = {name: tuple(np.shape(array)) for name, array in shipped.items()}
    if shapes != wanted:
        differ = sorted(shapes.items() ^ wanted.items())
        raise checks.FieldError(
            "release",
            "Expected {} to hold the arrays that train returns; they differ in"
            f" {', '.join(f'{name} {shape}' for name, shape in differ[:4])}.",
        )
    return np.concatenate(
        [np.ravel(np.asarray(shipped[name], np.float64)) for name in wanted]
    )
