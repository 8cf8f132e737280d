"""Needs TFDS_DATA_DIR with prepared mnist, cifar10 and cifar100."""

import os
import subprocess
import sys

import numpy as np
import pytest

import shadow

pytestmark = pytest.mark.skipif(
    "TFDS_DATA_DIR" not in os.environ, reason="TFDS_DATA_DIR is not set"
)


@pytest.mark.parametrize(
    ("name", "shape", "num_classes"),
    [
        ("cifar10", (32, 32, 3), 10),
        ("cifar100", (32, 32, 3), 100),
    ],
)
def test_cifar_loads(name, shape, num_classes):
    pool = shadow.load(name)
    assert pool.image_shape == shape
    assert pool.num_classes == num_classes
    assert pool.images.dtype == np.float32
    assert pool.images.min() == 0
    assert pool.images.max() == 1
    assert set(pool.labels) == set(range(num_classes))


@pytest.mark.slow
def test_mnist_loads_without_tensorflow():
    program = (
        "import sys, shadow; pool = shadow.load('mnist');"
        "assert 'tensorflow' not in sys.modules;"
        "print(len(pool), pool.image_shape, round(float(pool.images.mean()), 4))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    # 0.1309 is the well-known mean grey value of all 70,000 images (0.1307 in train).
    assert found.stdout.strip() == "70000 (28, 28, 1) 0.1309"


def test_an_unknown_version_is_not_prepared():
    with pytest.raises(FileNotFoundError, match=r"'mnist:9\.9\.9' is not prepared"):
        shadow.load("mnist:9.9.9")


@pytest.mark.slow
def test_cifar100_shadows_for_cifar10():
    parts = shadow.split(
        shadow.load("cifar10"),
        num_fixed=500,
        num_shadow=200,
        num_test=10,
        seed=0,
        shadow_pool=shadow.load("cifar100"),
    )
    assert parts.shadow.name == "cifar100"
    assert set(parts.shadow.labels) == set(range(10))
