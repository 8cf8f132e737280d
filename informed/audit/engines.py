"""How models of a training function can be made, and whether they can be asked."""

import dataclasses
import textwrap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from informed.audit.findings import Finding
from informed.audit.subject import Subject
from shadow import checks
from shadow.training import JaxFunction
from shadow.training.algorithm import Algorithm, Draw


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
            f"JAX can't trace it ({type(error).__name__}: {first}): it is run in"
            " processes, and its derivatives are differences of trainings"
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


def asked(
    subject: Subject, result: Any
) -> tuple[float | None, Subject, Finding | None]:
    """Accuracy on public records, and whether models can be asked."""
    call = subject.call()
    try:
        scores = np.asarray(call.answers(result, subject.held_out.images))
    except ValueError as error:
        return (
            None,
            subject,
            Finding(
                level="note",
                what="neither accuracy nor black-box attacks: models can't be asked",
                remedy=str(error),
            ),
        )
    except Exception as error:  # the user's own function
        return (
            None,
            subject,
            Finding(
                level="weakens",
                what=f"predict raised {checks.named(error)}",
                remedy="predict(released, images) -> scores (examples, classes)",
            ),
        )
    count = len(subject.held_out)
    if scores.ndim != 2 or len(scores) != count:
        return (
            None,
            subject,
            Finding(
                level="weakens",
                what=f"predict gave an array of shape {scores.shape}",
                remedy=f"expected ({count}, classes)",
            ),
        )
    classes = subject.fixed.num_classes
    if scores.shape[1] < classes:
        return (
            None,
            subject,
            Finding(
                level="weakens",
                what=f"predict gave scores of {scores.shape[1]} classes, labels go to"
                f" {classes - 1}",
                remedy=f"expected a column for every label from 0 to {classes - 1}",
            ),
        )
    right = float(np.mean(scores.argmax(axis=1) == subject.held_out.labels))
    subject = dataclasses.replace(subject, answering=True)
    if subject.engine == "jax" or subject.engine == "runs":
        try:
            _shape_of(subject.algorithm(answers=True), subject)
        except Exception as error:
            subject = dataclasses.replace(subject, answering=False)
            return (
                right,
                subject,
                Finding(
                    level="note",
                    what=f"no black box: predict isn't traced ({type(error).__name__})",
                ),
            )
    return right, subject, None


def _shape_of(algorithm: Algorithm, subject: Subject) -> Any:
    return algorithm.layout(subject.fixed)
