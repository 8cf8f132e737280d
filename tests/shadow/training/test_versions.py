"""The version of a function: its file, and the plain values that it holds."""

import functools
import importlib
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import shadow
from shadow.training.versions import source_hash

PROGRAM = """
import functools
import jax

def train(images, labels, key, rate=0.1):
    return images.sum() * rate

jitted = jax.jit(train)
halved = functools.partial(train, rate=0.5)
one, two = lambda x, y, k: x + 1, lambda x, y, k: x + 2

def made(value):
    step = lambda x: x * value
    return lambda images, labels, key: step(images)

def defaults(value):
    return lambda images, labels, key, rate=value: images * rate

def decorated(value):
    def wrap(function):
        @functools.wraps(function)
        def wrapped(*arguments):
            return function(*arguments) * value
        return wrapped
    return jax.jit(wrap(train))

class Trainer:
    def __init__(self, value):
        self.value = value
    def __call__(self, images, labels, key):
        return images * self.value
    train = __call__

class Slots(Trainer):
    __slots__ = ("more",)

method = lambda value: Trainer(value).train

def local(value):
    class Local:
        def __call__(self, images, labels, key): return images * value
    return Local()
partial = lambda value: functools.partial(train, rate=value)

def recursive(value):
    def again(n): return n and again(n - 1) * value
    return again
"""
MAKERS = ["made", "defaults", "decorated", "Trainer", "method", "partial", "recursive"]


@pytest.fixture
def load(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))

    def loaded(text=PROGRAM):
        (tmp_path / "mine.py").write_text(text)
        monkeypatch.delitem(sys.modules, "mine", raising=False)
        importlib.invalidate_caches()
        return importlib.import_module("mine")

    return loaded


@pytest.mark.parametrize("name", ["train", "jitted", "halved", "one"])
def test_a_version_is_of_the_file(load, name):
    first = source_hash(getattr(load(), name))
    assert source_hash(getattr(load(), name)) == first
    assert source_hash(getattr(load(PROGRAM + "# new\n"), name)) != first


@pytest.mark.parametrize("name", MAKERS)
def test_held_values_are_in_the_version(load, name):
    make = getattr(load(), name)
    first = source_hash(make(1))
    assert source_hash(make(1)) == first
    assert len({first, *(source_hash(make(v)) for v in (2, (1, 2), None))}) == 4


@pytest.mark.parametrize("name", MAKERS)
def test_other_held_values_need_a_version(load, name):
    train = getattr(load(), name)(np.arange(2))
    with pytest.raises(ValueError, match=r"version for .* ndarray .*version='1'"):
        shadow.PythonFunction(train=train)
    assert shadow.PythonFunction(train=train, version="1").version == "1"


def test_state_that_cannot_be_seen_needs_a_version(load):
    module = load()
    assert source_hash(module.one) != source_hash(module.two)  # of one name and line
    for train in (module.local(1), module.Slots(1), functools.partial(dict.get, {})):
        with pytest.raises(ValueError, match=r"version for .*Name one"):
            source_hash(train)


def test_a_function_without_a_file_needs_a_version():
    typed: dict = {}
    exec("def train(images, labels, key):\n    return images", typed)
    for train in (typed["train"], eval, np.add, jax.jit(typed["train"])):
        with pytest.raises(ValueError, match=r"version for .*Name one"):
            source_hash(train)


def test_a_version_is_the_same_in_another_process(load, tmp_path):
    module = load()
    here = [source_hash(getattr(module, name)(0.5)) for name in MAKERS]
    script = (
        "import sys, mine\nfrom shadow.training.versions import source_hash\n"
        "for name in sys.argv[1:]: print(source_hash(getattr(mine, name)(0.5)))"
    )
    there = subprocess.run(
        [sys.executable, "-c", script, *MAKERS],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.split() == here
