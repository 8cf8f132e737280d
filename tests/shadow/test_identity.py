"""A store is of one factory: whatever else decides weights is refused by name."""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reconn
import shadow
from dp.gradient import PrivacyConfig
from informed.experiment.training_settings import TrainingConfig
from shadow import merging
from shadow.checks import FieldError

PRIVATE = PrivacyConfig(clip_norm=1.0, noise_multiplier=1.0)
TRAINING = {
    "optimiser": "adam",
    "learning_rate": 0.1,
    "momentum": 0.5,
    "epochs": 3,
    "batch_size": 7,
    "weight_decay": 0.01,
    "initialisation": "random",
    "shuffling": "unknown",
}
# An optimiser has no fields: what it computes is hashed.
OPTIMISER = dict.fromkeys(("learning_rate", "momentum"), "optimiser")
PRIVACY = {"clip_norm": 2.0, "noise_multiplier": 3.0, "sampling_probability": 0.5}
NETWORK = {
    "architecture": "affine",
    "widths": (6,),
    "activation": "tanh",
    "initialiser": "he_normal",
}
# What is changed, and the name by which it is refused.
CHANGES = {
    **{
        f"training {name}": f"algorithm.{OPTIMISER.get(name, name)}"
        for name in TRAINING
    },
    **{f"privacy {name}": f"algorithm.privacy.{name}" for name in PRIVACY},
    **{f"network {name}": "network" for name in NETWORK},
    "key": "key",
    "role": "role",
    "start": "theta_0",
    "fixed": "content.fixed",
    "targets": "content.targets",
    "number of targets": "num_models",
}


def made(split, change="", *, private=False):
    """A factory and its targets, with one change."""
    kind, _, field = change.partition(" ")
    private = private or kind == "privacy"
    training = {"epochs": 2, **({"privacy": PRIVATE} if private else {})}
    network = {"widths": (5,)}
    if kind == "training":
        training[field] = TRAINING[field]
    elif kind == "privacy":
        training["privacy"] = dataclasses.replace(PRIVATE, **{field: PRIVACY[field]})
    elif kind == "network":
        network[field] = NETWORK[field]
    fixed, targets = split.fixed, split.shadow.take(slice(0, 8))
    if kind == "fixed":
        fixed = split.fixed.take(np.roll(np.arange(len(split.fixed)), 1))
    elif kind == "targets":
        targets = split.shadow.take(slice(8, 16))
    elif kind == "number":
        targets = split.shadow.take(slice(0, 9))
    factory = shadow.Factory(
        algorithm=TrainingConfig(**training).algorithm(
            shadow.build_victim(
                shadow.VictimConfig(**network),
                image_shape=fixed.image_shape,
                num_classes=fixed.num_classes,
            )
        ),
        fixed=fixed,
        key=jax.random.key(int(kind == "key")),
        role="released" if kind == "role" else "shadow",
    )
    if kind == "start":
        start = factory.initialisation + np.float32(0.1)
        factory = dataclasses.replace(factory, start=start)
    return factory, targets


def open_store(path, factory, targets):
    return shadow.Store.open(path, factory, targets, block_size=4)


def write(store, targets, blocks):
    """Fill blocks with weights that nobody trained."""
    rng = np.random.default_rng(2022)
    for block in blocks:
        rows = slice(*store.block_range(block))
        images, labels = targets.images[rows], targets.labels[rows]
        weights = rng.normal(size=(len(labels), store.manifest["num_params"]))
        store.write_block(block, weights.astype(np.float32), images, labels)


def any_change(test):
    """Draw the one field in which another factory, or its targets, differ."""
    drawn = settings(
        max_examples=len(CHANGES),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    return drawn(given(change=st.sampled_from(sorted(CHANGES)))(test))


def refused(change, by=shadow.ConfigurationMismatchError):
    """Expect a refusal that names the field."""
    return pytest.raises(by, match=CHANGES[change].replace(".", r"\."))


@any_change
def test_any_single_change_is_refused_by_name(change, split, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    factory, targets = made(split, private=change.startswith("privacy"))
    store = open_store(folder / "store", factory, targets)
    write(store, targets, [0])
    other, others = made(split, change)
    with refused(change):
        store.made_by(other, others).verify()
    with refused(change):
        open_store(folder / "store", other, others).verify()
    elsewhere = open_store(folder / "elsewhere", other, others)
    with refused(change):
        merging.merge(folder / "merged", [store, elsewhere], progress=False)
    with refused(change):
        elsewhere.take_block(0, store)
    assert store.verify() == []
    assert store.missing() == [1]
    assert elsewhere.missing() == list(range(elsewhere.num_blocks))


@pytest.fixture(scope="module")
def reconstructors(split, tmp_path_factory):
    """Folders with a reconstructor of the models of `made`, without and with noise."""
    folder = tmp_path_factory.mktemp("reconstructors")
    for private in (False, True):
        factory, targets = made(split, private=private)
        store = open_store(folder / f"store-{private}", factory, targets)
        write(store, targets, store.missing())
        train(store, folder / f"run-{private}")
    return folder


def train(store, workdir):
    key = jax.random.key(0)
    return reconn.train(
        store, reconn.Kernel(), key=key, workdir=workdir, progress=False
    )


@any_change
def test_a_reconstructor_of_another_factory_is_refused_by_name(
    change, split, reconstructors, tmp_path_factory
):
    """Its folder is of one store: a run on other models doesn't go on with it."""
    factory, targets = made(split, change)
    store = open_store(tmp_path_factory.mktemp("stores"), factory, targets)
    write(store, targets, store.missing())
    workdir = reconstructors / f"run-{change.startswith('privacy')}"
    kept = {file: file.read_bytes() for file in workdir.glob("*.*")}
    # Released models aren't trained on, in whatever folder.
    by = FieldError if change == "role" else shadow.ConfigurationMismatchError
    with refused(change, by):
        train(store, workdir)
    assert kept == {file: file.read_bytes() for file in workdir.glob("*.*")}


def test_two_factories_do_not_share_a_store(split, tmp_path):
    """One of three epochs filled the first half, another of nine the rest."""
    first, targets = made(split)
    store = open_store(tmp_path / "store", first, targets)
    store.fill(blocks=[0], progress=False)
    second, _ = made(split, "training epochs")
    second = dataclasses.replace(second, key=jax.random.key(7))
    with pytest.raises(
        shadow.ConfigurationMismatchError, match=r"algorithm\.epochs.*; key: "
    ):
        store.made_by(second, store._targets)
    store.fill(progress=False)
    np.testing.assert_array_equal(store.read().weights, first.train(targets))


def test_a_start_that_is_forgotten_is_refused(split, tmp_path):
    """Releases would begin elsewhere than shadow models, and attacks see nothing."""
    factory, targets = made(split)
    start = factory.initialisation + np.float32(0.1)
    warm = dataclasses.replace(factory, start=start)
    store = open_store(tmp_path / "store", warm, targets)
    store.fill(blocks=[0], progress=False)
    with pytest.raises(shadow.ConfigurationMismatchError, match="theta_0"):
        open_store(tmp_path / "store", factory, targets)
    near = dataclasses.replace(factory, start=start * np.float32(1 + 1e-7))
    assert (open_store(store.place, near, targets).factory.start == start).all()


def test_a_block_without_numbers_is_refused(split, tmp_path):
    factory, targets = made(split)
    store = open_store(tmp_path / "store", factory, targets)
    weights = factory.train(targets.take(slice(0, 4)))
    weights[2, 1] = np.nan
    with pytest.raises(ValueError, match="weights of block 0 without NaN"):
        store.write_block(0, weights, targets.images[:4], targets.labels[:4])
    assert store.missing() == [0, 1]


def test_equal_networks_of_any_origin_are_one(split):
    """The trace counts, not the object: built twice, or by other widths' code."""
    (first, _), (second, _) = made(split), made(split)
    assert first.algorithm.victim is not second.algorithm.victim
    assert first.identity == second.identity
