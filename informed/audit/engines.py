"""How models of a training function can be made."""

import dataclasses
import textwrap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from informed.audit.subject import Subject
from shadow import checks
from shadow.training import JaxFunction
from shadow.training.algorithm import Draw


def engine_of(subject: Subject) -> tuple[str, str]:
    """How models can be made, and why not in a faster way."""
    fixed, targets = subject.fixed, subject.split.test
    data = jnp.asarray(fixed.images), jnp.asarray(fixed.labels)
    algorithm = dataclasses.replace(subject, engine="jax").algorithm()
    assert isinstance(algorithm, JaxFunction)
    draw = Draw(key=jax.random.key(0))

    def one(image: Any, label: Any) -> Any:
        return algorithm(data, image[None], label[None], draw)

    image, label = jnp.asarray(targets.images[0]), jnp.asarray(targets.labels[0])
    try:
        jax.eval_shape(jax.vmap(one), image[None], label[None])
    except Exception as error:  # whatever the user's function raises when traced
        first = textwrap.shorten(checks.first_line(error), 90, placeholder=" ...")
        return "processes", (
            "it is run in processes, and its derivatives are differences of trainings,"
            f" as JAX can't trace it: it raised {type(error).__name__}: {first}"
        )
    direction = jnp.asarray(
        np.random.default_rng(0).standard_normal(image.shape), image.dtype
    )
    try:
        derivative = jax.jit(
            lambda z: jax.jvp(lambda x: one(x, label), (z,), (direction,))[1]
        )(image)
    except Exception as error:
        return "runs", f"no derivative goes through it ({type(error).__name__})"
    values = np.asarray(derivative)
    if not np.isfinite(values).all():
        return "runs", (
            "its derivatives are NaN or infinite (a power of zero, for one);"
            " differences of trainings are used instead"
        )
    if not values.any():
        return "runs", "its derivatives are zero; differences of trainings are used"
    return "jax", ""
