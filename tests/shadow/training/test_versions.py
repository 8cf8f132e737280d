"""The version of a function covers the run-time values of what it reads."""

import importlib
import importlib.util
import os
import subprocess
import sys

import pytest

import shadow
from shadow.training.foreign import source_hash

HEAD = """
import argparse, dataclasses, functools, os, pathlib
import jax, jax.numpy as jnp, numpy as np
"""
PROGRAMS = {
    "plain": """
LR = float(os.environ["X"])
def train(images, labels, key):
    return images.sum() * LR
""",
    "by way of another function": """
LR = float(os.environ["X"])
def step(w):
    return w * LR
def train(images, labels, key):
    return [step(w) for w in images]
""",
    "of a function within, jitted": """
TABLE = {"rate": [float(os.environ["X"]), 2], 3: (None, True)}
@jax.jit
def train(images, labels, key):
    def step(w):
        return w * TABLE["rate"][0]
    return step(images)
""",
    "array": """
START = np.full((3, 2), float(os.environ["X"]))
train = functools.partial(lambda i, l, k, scale: START * scale, scale=2)
""",
    "array of JAX": """
START = jnp.full((3, 2), float(os.environ["X"]))
def train(images, labels, key):
    return START
""",
    "key of JAX": """
KEY = jax.random.key(int(float(os.environ["X"]) * 10))
def train(images, labels, key):
    return jax.random.normal(KEY, (3,))
""",
    "attribute of a class": """
class Config:
    rate = float(os.environ["X"])
def train(images, labels, key):
    return images * Config.rate
""",
    "method of a class": """
RATE = float(os.environ["X"])
class Model:
    def step(self, w):
        return w * RATE
def train(images, labels, key):
    return Model().step(images)
""",
    "dataclass": """
@dataclasses.dataclass
class Config:
    rate: float
CONFIG = Config(float(os.environ["X"]))
def train(images, labels, key):
    return images * CONFIG.rate
""",
    "command line": """
parser = argparse.ArgumentParser()
parser.add_argument("--rate", default=float(os.environ["X"]))
ARGS = parser.parse_args([])
def train(images, labels, key):
    return images * ARGS.rate
""",
    "default of another function": """
def step(w, rate=float(os.environ["X"])):
    return w * rate
def train(images, labels, key):
    return step(images)
""",
    "captured by another function": """
def made(rate):
    return lambda w: w * rate
step = made(float(os.environ["X"]))
def train(images, labels, key):
    return step(images)
""",
    "of a helper module": """
import helpers
def train(images, labels, key):
    return images * helpers.RATE
""",
    "of a function of a helper module": """
from helpers import step
def train(images, labels, key):
    return step(images)
""",
    "of a decorator": """
def configured(**settings):
    def wrap(function):
        @functools.wraps(function)
        def wrapped(*arguments):
            return function(*arguments, **settings)
        return wrapped
    return wrap
@configured(rate=float(os.environ["X"]))
def train(images, labels, key, rate):
    return images * rate
""",
    "of a decorator of another function": """
def configured(rate):
    def wrap(function):
        @functools.wraps(function)
        def wrapped(w):
            return function(w) * rate
        return wrapped
    return wrap
@jax.jit
@configured(float(os.environ["X"]))
def step(w):
    return w
def train(images, labels, key):
    return step(images)
""",
    "a partial function, jitted": """
def base(images, labels, key, rate):
    return images * rate
train = jax.jit(functools.partial(base, rate=float(os.environ["X"])))
""",
    "default of a method": """
class Model:
    def step(self, w, rate=float(os.environ["X"])):
        return w * rate
def train(images, labels, key):
    return Model().step(images)
""",
    "captured by a method": """
def made(rate):
    class Model:
        @property
        def rate(self):
            return rate
        @classmethod
        def step(cls, w):
            return w * rate
    return Model
Model = made(float(os.environ["X"]))
def train(images, labels, key):
    return Model.step(images)
""",
    "beside the fields of a dataclass": """
@dataclasses.dataclass
class Model:
    width: int = 3
    seed: dataclasses.InitVar[float] = 0.0
    def __post_init__(self, seed):
        self.rate = seed
    def train(self, images, labels, key):
        return images * self.rate
train = Model(seed=float(os.environ["X"])).train
""",
    "attribute of a function": """
def step(w):
    return w * step.rate
step.rate = float(os.environ["X"])
def train(images, labels, key):
    return step(images)
""",
    "method of a dictionary": """
def made(get):
    def train(images, labels, key):
        return images * get("rate")
    return train
train = made({"rate": float(os.environ["X"])}.get)
""",
    "one of several by type": """
@functools.singledispatch
def step(w):
    return w
def made(rate):
    return lambda w: w * rate
step.register(np.ndarray, made(float(os.environ["X"])))
def train(images, labels, key):
    return step(images)
""",
}
HELPERS = """
import os
RATE = float(os.environ["X"])
def step(w):
    return w * RATE
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """A module of the user's, made while the environment holds a value."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def loaded(program, value="0.1"):
        (tmp_path / "helpers.py").write_text(HELPERS)
        (tmp_path / "mine.py").write_text(HEAD + program)
        monkeypatch.setenv("X", value)
        sys.modules.pop("helpers", None)
        spec = importlib.util.spec_from_file_location("mine", tmp_path / "mine.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "mine", module)
        spec.loader.exec_module(module)
        return module

    return loaded


@pytest.mark.parametrize("name", PROGRAMS)
def test_finding_14_what_a_global_holds_is_in_the_version(load, name):
    train = load(PROGRAMS[name]).train
    first = source_hash(train)
    assert source_hash(load(PROGRAMS[name]).train) == first
    assert source_hash(load(PROGRAMS[name], "0.2").train) != first


def test_finding_14_a_store_made_with_another_rate_is_refused(load, tmp_path, digits):
    split = shadow.split(digits, num_fixed=3, num_shadow=4, num_test=4, seed=0)

    def store(value):
        algorithm = shadow.PythonFunction(train=load(PROGRAMS["array"], value).train)
        return shadow.ShadowStore.create(
            tmp_path / "store",
            configuration={},
            algorithm=algorithm,
            split=split,
            role="shadow",
            block_size=4,
            initialisation=None,
        )

    made = store("0.1")
    found = made.record.configuration["algorithm"]["version"]
    assert store("0.1").record.configuration["algorithm"]["version"] == found
    # An empty store is replaced; its version isn't that of the other rate.
    assert store("0.2").record.configuration["algorithm"]["version"] != found


def test_finding_14_what_cannot_be_hashed_is_named(load):
    program = """
NOTES = open(os.devnull)
THING = object()
def step(w):
    NOTES.read()
    return w * float(os.environ["X"])
def train(images, labels, key):
    return step(images), THING
"""
    with pytest.warns(
        UserWarning,
        match=r"train doesn.t cover .*NOTES \(Text.*THING \(object\), os\.environ",
    ):
        first = source_hash(load(program).train)
    shadow.PythonFunction(train=load(program).train, version="1")
    with pytest.warns(UserWarning, match="Name a version"):
        assert source_hash(load(program).train) == first


def test_globals_that_are_not_read_are_not_in_the_version(load):
    program = """
OTHER, LR = float(os.environ["X"]), 1.0
def other():
    return OTHER
def train(images, labels, key):
    return images * LR
"""
    found = {source_hash(load(program, value).train) for value in ("1", "2")}
    assert len(found) == 1


def test_functions_that_refer_to_each_other_come_to_an_end(load):
    program = """
def made():
    def again(n):
        return n and again(n - 1)
    return again
again = made()
def even(n):
    return n == 0 or odd(n - 1)
def odd(n):
    return n != 0 and even(n - 1)
def train(images, labels, key):
    return even(3), again(3)
"""
    assert source_hash(load(program).train) == source_hash(load(program).train)


def test_the_version_is_the_same_in_another_process(load, tmp_path):
    """No addresses, and no order of a set."""
    program = """
import optax
NAMES = {"a", "b", "c", "d"}
OPTIMISER = optax.adam
def train(images, labels, key):
    return np.linalg.norm(images), np.add(1, jnp.sin(2)), NAMES, OPTIMISER(0.1), len
"""
    here = source_hash(load(program).train)
    script = (
        "import mine\nfrom shadow.training.foreign import source_hash\n"
        "print(source_hash(mine.train))"
    )
    there = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{os.getcwd()}", "X": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == here


def test_a_trained_model_of_another_library_is_told_by_its_arrays():
    torch = pytest.importorskip("torch")
    tensors = [torch.zeros(3), torch.zeros(3), torch.ones(3)]
    functions = [lambda images, labels, key, t=tensor: t for tensor in tensors]
    first, again, other = map(source_hash, functions)
    assert first == again != other


def test_an_object_that_says_little_of_itself_is_refused(load):
    program = """
class Thing:
    def __init__(self, rate):
        self.rate = rate
    def to_dict(self):
        return {}
def made(thing):
    return lambda images, labels, key: images * thing.rate
train = made(Thing(float(os.environ["X"])))
"""
    with pytest.raises(ValueError, match="captures a value of Thing"):
        source_hash(load(program).train)


def test_what_decorators_and_dataclasses_make_at_run_time_is_no_code_of_the_users(load):
    """Without a warning, which is an error here, and the same after a call."""
    program = """
import beartype, logging
@dataclasses.dataclass
class Config:
    rate: float = 0.1
CONFIG = Config()
def logged(logger):
    def wrap(function):
        @functools.wraps(function)
        def wrapped(*arguments):
            return function(*arguments)
        return wrapped
    return wrap
@beartype.beartype
def step(w: int) -> int:
    return w
@beartype.beartype
def train(images: int, labels, key) -> int:
    train.calls = getattr(train, "calls", 0) + 1
    return step(images) + int(CONFIG.rate)
"""
    train = load(program).train
    first = source_hash(train)
    train(1, 2, 3)
    assert source_hash(train) == first


def test_a_module_of_flax_is_told_by_its_fields(load):
    pytest.importorskip("flax")
    program = """
import flax.linen as nn
def made(width):
    module = nn.Dense(width)
    return lambda images, labels, key: module.init(key, images)
train = made(int(10 * float(os.environ["X"])))
"""
    first = source_hash(load(program).train)
    assert source_hash(load(program).train) == first
    assert source_hash(load(program, "0.2").train) != first


STEP = "def step(w):\n    return {rate} * w\n"
NET = "class Net:\n    def fit(self, w):\n        return {rate} * w\n"


@pytest.mark.parametrize(
    ("helper", "mine"),
    [
        (STEP, "def train(x, y, k):\n    from helper import step\n"
               "    return step(1)\n"),
        (STEP, "def train(x, y, k):\n    import helper\n    return helper.step(1)\n"),
        (NET, "from helper import Net\nNETS = {'a': Net}\n"
              "def train(x, y, k):\n    return NETS['a']().fit(1)\n"),
        (NET, "import enum, helper\nclass E(enum.Enum):\n    A = helper.Net\n"
              "def train(x, y, k):\n    return E.A.value().fit(1)\n"),
        (NET, "import helper\nclass C:\n    NETS = [helper.Net]\n"
              "def train(x, y, k):\n    return C.NETS[0]().fit(1)\n"),
    ],
    ids=["from", "import", "dict", "enum", "attribute"],
)  # fmt: skip
def test_code_of_ones_own_is_followed(helper, mine, tmp_path, monkeypatch):
    """Wherever it is imported, and whatever holds it."""
    found = {}
    for rate in (0.1, 0.9, 0.1):
        folder = tmp_path / f"{rate}-{len(found)}"
        folder.mkdir(exist_ok=True)
        (folder / "helper.py").write_text(helper.format(rate=rate))
        (folder / "mine.py").write_text(mine)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            for name in ("helper", "mine"):
                patch.delitem(sys.modules, name, raising=False)
            train = importlib.import_module("mine").train
            version = source_hash(train)
            assert train(None, None, None) == rate
            for name in ("helper", "mine"):
                del sys.modules[name]
        assert found.setdefault(rate, version) == version
    assert len(set(found.values())) == 2


def test_modules_by_a_name_are_warned_of_and_counters_left_out(load):
    program = """
import importlib
COUNT = 0
def train(images, labels, key):
    global COUNT
    COUNT += 1
    return images
RATE = float(os.environ["X"])
def setting(images, labels, key):
    global RATE
    RATE *= 0.5
    return images * RATE
def named(images, labels, key):
    return importlib.import_module("os").getpid()
"""
    module = load(program)
    first = source_hash(module.train)
    module.train(1, 2, 3)
    assert source_hash(module.train) == first
    with pytest.warns(UserWarning, match="imports by their names"):
        source_hash(module.named)
    with pytest.warns(UserWarning, match="RATE, which it sets"):
        source_hash(module.setting)


def test_a_version_runs_nothing_and_is_the_same_after_a_training(tmp_path, monkeypatch):
    package = tmp_path / "pack"
    package.mkdir()
    (package / "inner.py").write_text("RATE = 3\n")
    (tmp_path / "script.py").write_text("import sys\nsys.exit(1)\n")
    (tmp_path / "ours.py").write_text(
        "def train(x, y, k):\n    from pack import inner\n"
        "    if x is None:\n        import script\n    return inner.RATE\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    train = importlib.import_module("ours").train
    first = source_hash(train)
    assert train(1, 2, 3) == 3
    assert source_hash(train) == first
    (package / "inner.py").write_text("RATE = 4\n")
    assert source_hash(train) != first
