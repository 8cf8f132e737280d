"""Programs of a GPU, lowered for CUDA on a machine without one: precision and scatters.

Lowering needs no compiler of NVIDIA's; what that makes of it is in `test_compiled`.
"""

import re

import jax
import numpy as np
import pytest
from jax import export

from dp.gradient import PrivacyConfig
from informed.experiment.training_settings import TrainingConfig
from shadow import parallel, victims, width

PRIVATE = PrivacyConfig(clip_norm=1.0, noise_multiplier=1.0, sampling_probability=0.1)
CASES = {
    "MLP in the span": ("mlp", 30, {}, None),
    "MLP": ("mlp", 150, {}, None),
    "MLP by Adam": ("mlp", 150, {"optimiser": "adam"}, None),
    "MLP in batches": ("mlp", 150, {"batch_size": 16, "shuffling": "unknown"}, None),
    "MLP private": ("mlp", 150, {"privacy": PRIVATE}, None),
    "CNN": ("cnn", 600, {}, None),
    "CNN in batches": ("cnn", 600, {"batch_size": 16}, None),
    "CNN private": ("cnn", 600, {"privacy": PRIVATE}, None),
}
_PRODUCT = re.compile(r"stablehlo\.(?:dot_general|convolution)\b")


def lowered(architecture, num_fixed, training, form):
    """StableHLO for CUDA, of two models at once."""
    shape = (8, 8, 1) if architecture == "mlp" else (10, 10, 1)
    victim = victims.build(
        victims.VictimConfig(architecture=architecture, widths=(5,)),
        image_shape=shape,
        num_classes=10,
    )
    algorithm = TrainingConfig(**training).algorithm(victim, form=form)
    one = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("rows",))
    made = parallel.program(algorithm, width.draw_of(algorithm), one)
    some = jax.ShapeDtypeStruct
    return export.export(made, platforms=["cuda"])(
        (some((num_fixed, *shape), np.float32), some((num_fixed,), np.int32)),
        some((2, 1, *shape), np.float32),
        some((2, 1), np.int32),
        some((2,), np.int32),
    ).mlir_module()


@pytest.mark.parametrize("case", CASES)
def test_products_are_exact_and_nothing_is_scattered(case, accelerator):
    text = lowered(*CASES[case])
    products = [line for line in text.splitlines() if _PRODUCT.search(line)]
    assert len(products) >= 4
    for line in products:
        assert line.count("HIGHEST") == 2 or "precision HIGHEST" in line, line
    assert "stablehlo.scatter" not in text
