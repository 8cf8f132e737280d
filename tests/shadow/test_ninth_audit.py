"""Versions of what is loaded, settings that decide draws, half precision, layouts."""

import dataclasses
import importlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shadow
from shadow import checks, records, rounding, sources, weights

KEY = jax.random.key(0)


def test_a_file_that_was_edited_after_its_import_has_no_version(tmp_path, monkeypatch):
    file = tmp_path / "edited_later.py"
    text = (
        "def scaled(x):\n    return [x * 2 for _ in range(2)][0]\n\n\n"
        "class Rate:\n    def of(self, x):\n        return (lambda y: y + 1)(x)\n\n\n"
        "def train(images, labels, seed):\n"
        "    return Rate().of(scaled(images.reshape(len(images), -1).sum(axis=0)))\n"
    )
    file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("edited_later")
    try:
        before = shadow.PythonFunction(train=module.train).version
        file.write_text(text.replace("x * 2", "x * 3"))
        with pytest.raises(checks.FieldError, match=r"edited_later\.py was edited"):
            shadow.PythonFunction(train=module.train)
        file.write_text(text)
        assert shadow.PythonFunction(train=module.train).version == before
    finally:
        del sys.modules["edited_later"]


def test_a_function_on_two_data_sets_has_two_layouts(rng):
    def train(images, labels, seed):
        return images.reshape(len(images), -1).sum(axis=0)

    algorithm = shadow.PythonFunction(train=train, version="1")
    for side in (2, 3):
        images = rng.random((5, side, side, 1)).astype(np.float32)
        labels = np.zeros(5, np.int32)
        data = shadow.Examples(images=images, labels=labels, num_classes=2)
        assert algorithm.layout(data)[-1].stop == side * side


def test_an_object_that_trains_has_a_name():
    class Trainer:
        def __call__(self, images, labels, seed):
            return images.sum(axis=0)

    about = shadow.PythonFunction(train=Trainer(), version="1").configuration
    assert "Trainer" in about["algorithm"]["function"]


def test_other_generators_are_refused(split, victim):
    descent = shadow.GradientDescent(victim=victim, training=shadow.TrainingConfig())
    with pytest.raises(checks.FieldError, match="threefry2x32, got rbg"):
        shadow.Factory(
            algorithm=descent, fixed=split.fixed, key=jax.random.key(0, impl="rbg")
        )


def test_settings_that_decide_draws_are_on_record():
    plain = records.versions()
    assert not [name for name in plain if name.startswith("jax_")]
    with jax.threefry_partitionable(False):
        found = records.versions()
    assert found == {**plain, "jax_threefry_partitionable": False}


def test_parameters_in_half_precision_are_refused():
    def init(key):
        return {"w": jnp.zeros((4, 2), jnp.bfloat16)}

    def apply(params, images):
        return images.reshape(len(images), -1) @ params["w"].astype(jnp.float32)

    with pytest.raises(ValueError, match="got bfloat16 in w"):
        shadow.from_functions(init, apply, image_shape=(2, 2, 1), num_classes=2)


def test_numbers_that_numpy_does_not_have_are_named(tmp_path):
    np.savez(tmp_path / "half.npz", w=np.asarray(jnp.ones(3, jnp.bfloat16)))
    with pytest.raises(checks.FieldError, match="no bfloat16: save the"):
        weights.read(tmp_path / "half.npz")


def test_an_array_without_entries_is_rounded_too():
    assert rounding.FORMATS["int8"](np.zeros((3, 0), np.float32))[0].shape == (3, 0)


def test_how_many_classes_there_are_is_part_of_the_data(rng):
    images = rng.random((4, 2, 2, 1)).astype(np.float32)
    three = shadow.Examples(images=images, labels=np.arange(4) % 3, num_classes=3)
    five = dataclasses.replace(three, num_classes=5)
    digests = []
    for name, data in (("three of them", three), ("five of them", five)):
        sources.register_source(name, lambda data=data: data)
        digests.append(sources._digest(sources._SOURCES[name]))
    assert digests[0] != digests[1]


def test_a_scalar_of_numpy_is_a_number():
    # Apart, as types are not checked where users call it.
    code = (
        "import numpy as np, dp\n"
        "one, q = np.array(1.0), np.array(0.25)\n"
        "run = lambda s, q: dp.PoissonGaussian(noise_multiplier=s, steps=5,"
        " sampling_probability=q, relation='zero_out')\n"
        "bound = lambda run: dp.rero_bound(run, kappa=0.1).gamma\n"
        "assert bound(run(one, q)) == bound(run(1.0, 0.25))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
