"""Shared fixtures. Small real images (scikit-learn's digits) wherever they do.

Most of a test's time is XLA compiling programs that run for milliseconds. So they are
compiled with little optimisation, unless XLA_FLAGS is set; and compiled programs are
kept in .pytest_cache/xla, for other tests, workers and runs. (No optimisation at all
compiles faster still, but then the tests that compute take five to thirty times as
long.) Where a jaxlib doesn't know a flag, or for XLA's defaults: XLA_FLAGS= make test.
Tracing makes many objects that live long, so garbage is collected seldom: one
twentieth of the time.
"""

import gc
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:  # workers that share cores; OpenMP's spin
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=1",
)
_COMPILED = Path(__file__).parent.parent / ".pytest_cache" / "xla"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_COMPILED))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import hypothesis
import jax
import numpy as np
import pytest
import threadpoolctl

import shadow
from shadow import devices, victims
from tests import products
from tests.measured import LONG

if "PYTEST_XDIST_WORKER" in os.environ:  # NumPy was imported before this file
    threadpoolctl.threadpool_limits(1)
gc.set_threshold(200_000, 50, 100)
jax.config.update("jax_numpy_rank_promotion", "raise")
hypothesis.settings.register_profile("tests", derandomize=True, deadline=None)
hypothesis.settings.load_profile("tests")
products.watch()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that `make test` leaves out for their time; see tests/measured.py."""
    long = set(LONG.read_text().splitlines())
    for item in items:
        if item.nodeid in long:
            item.add_marker("long")


@pytest.fixture(autouse=True)
def _without_chance() -> None:
    """scikit-learn draws from NumPy's generator where a test names no random_state."""
    np.random.seed(int(os.environ.get("TESTS_SEED", "2022")))  # noqa: NPY002


@pytest.fixture(autouse=True)
def _products_are_exact() -> Iterator[None]:
    """See `tests.products`; also of the fixtures that came before."""
    yield
    seen = products.found.copy()
    products.found.clear()
    assert not seen


@pytest.fixture
def accelerator() -> Iterator[None]:
    """Programs as on an accelerator; they are run on this CPU."""
    with devices.as_on_an_accelerator(64 << 30):
        yield


@pytest.fixture
def key() -> jax.Array:
    return jax.random.key(2022)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(2022)


@pytest.fixture(scope="session")
def digits() -> shadow.Examples:
    return shadow.load("digits")


@pytest.fixture(scope="session")
def split(digits: shadow.Examples) -> shadow.Split:
    return shadow.split(digits, num_fixed=50, num_shadow=40, num_test=10, seed=0)


@pytest.fixture(scope="session")
def victim(digits: shadow.Examples) -> victims.Victim:
    config = victims.VictimConfig(widths=(5,))
    return victims.build(
        config, image_shape=digits.image_shape, num_classes=digits.num_classes
    )


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """moto's S3 server on this machine's loopback."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Address of a new bucket; the environment is set as a user would set it."""
    import boto3

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tests")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "tests")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT", s3_endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    name = f"tests-{uuid.uuid4().hex}"
    client = boto3.client("s3", region_name="us-east-1", endpoint_url=s3_endpoint)
    client.create_bucket(Bucket=name)
    return f"s3://{name}"
