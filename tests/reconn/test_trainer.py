import dataclasses
import json
import shutil

import jax
import numpy as np
import optax
import pytest

import reconn
from reconn import network, trainer
from shadow import ConfigurationMismatchError, ShadowModels, devices, safetensors
from tests.reconn.planted import history, part, read_out, train

SHAPE = (4, 4, 1)


@pytest.fixture
def planted(digits, rng):
    """Weights that are a known noisy linear image of the target."""
    images = digits.images[:300, 2:6, 2:6]
    mixing = rng.normal(size=(16, 40)).astype(np.float32)
    weights = images.reshape(300, 16) @ mixing
    weights += 0.01 * rng.normal(size=weights.shape).astype(np.float32)
    return ShadowModels(weights=weights, images=images, labels=digits.labels[:300])


def config(**fields):
    defaults = {
        "module": reconn.mlp(widths=(64,)),
        "optimiser": reconn.adam_cosine(learning_rate=3e-3),
        "epochs": 12,
        "batch_size": 16,
    }
    return reconn.Network(**(defaults | fields))


def test_a_planted_target_is_read_back(planted, key, tmp_path):
    """Unseen targets, far closer than the mean image; permuted weights teach none."""
    seen, unseen = part(planted, slice(0, 250)), part(planted, slice(250, None))

    def error(models, workdir):
        found = train(models, config(epochs=60), key=key, workdir=workdir)
        return np.mean((read_out(found, unseen.weights) - unseen.images) ** 2)

    baseline = np.mean((seen.images.mean(axis=0) - unseen.images) ** 2)
    assert error(seen, tmp_path / "true") < 0.1 * baseline
    shuffled = ShadowModels(
        weights=seen.weights[::-1], images=seen.images, labels=seen.labels
    )
    assert error(shuffled, tmp_path / "control") > 0.8 * baseline


@pytest.mark.parametrize("recipe", [reconn.adam_cosine, reconn.rmsprop])
@pytest.mark.parametrize("decays", [True, False])
def test_every_optimiser_and_schedule_learns(planted, key, tmp_path, recipe, decays):
    optimiser = dataclasses.replace(
        recipe(learning_rate=3e-3, warmup_epochs=1.0), decays=decays
    )
    train(planted, config(optimiser=optimiser), key=key, workdir=tmp_path)
    errors = [line["validation_mse"] for line in history(tmp_path)]
    assert len(errors) == 12
    assert min(errors) < 0.7 * errors[0]


class Interrupt(Exception):
    pass


def test_an_interrupted_run_ends_in_the_same_weights(
    planted, key, tmp_path, monkeypatch
):
    whole = train(planted, config(), key=key, workdir=tmp_path / "whole")
    left = [5]

    def stop():
        left[0] -= 1
        if not left[0]:
            raise Interrupt

    again = {"key": key, "workdir": tmp_path / "again"}
    monkeypatch.setattr(network, "_CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(network, "_CHECKPOINT_SHARE", 0.0)
    with pytest.raises(Interrupt):
        train(planted, config(), **again, on_epoch=stop)
    epochs = []
    resumed = train(planted, config(), **again, on_epoch=lambda: epochs.append(1))
    assert len(epochs) == 12 - 4, "four epochs had been saved"
    jax.tree.map(
        np.testing.assert_array_equal, resumed.model.params, whole.model.params
    )
    histories = [history(tmp_path / run) for run in ("whole", "again")]
    for line in (*histories[0], *histories[1]):
        del line["seconds"]
    assert histories[0] == histories[1]
    loaded = reconn.load(tmp_path / "again")
    np.testing.assert_array_equal(
        read_out(loaded, planted.weights), read_out(whole, planted.weights)
    )


def test_features_that_do_not_fit_into_memory_are_mapped(
    planted, key, tmp_path, monkeypatch
):
    """The same weights to the bit, and no file left behind."""
    run = {"key": key}
    held = train(planted, config(), workdir=tmp_path / "held", **run)
    monkeypatch.setattr(devices, "memory_bytes", lambda: 0)
    seen = []

    def look():
        (file,) = (tmp_path / "mapped").glob("features-*.npy")
        seen.append(file.stat().st_size)

    mapped = train(planted, config(), workdir=tmp_path / "mapped", **run, on_epoch=look)
    assert min(seen) >= 300 * 40 * 4
    assert not list((tmp_path / "mapped").glob("features-*.npy"))
    jax.tree.map(np.testing.assert_array_equal, held.model.params, mapped.model.params)


def test_the_best_epoch_is_kept(planted, key, tmp_path):
    """With a learning rate that forgets, the last epoch isn't the best one."""
    found = train(
        planted,
        config(optimiser=optax.adamw(0.05, weight_decay=0.0), epochs=15),
        key=key,
        workdir=tmp_path,
    )
    lines = history(tmp_path)
    errors = [line["validation_mse"] for line in lines]
    assert min(errors) < errors[-1]
    unseen = part(planted, slice(285, None))  # the last 5 % validate
    made = found.model(found.standardiser(unseen.weights))
    error = np.mean((made - unseen.images) ** 2)
    assert error == pytest.approx(min(errors), rel=1e-5)


def test_validation_models_are_never_trained_on(planted, key, tmp_path):
    """What the validating rows hold changes no weight of the last epoch."""
    changed = ShadowModels(
        weights=np.concatenate([planted.weights[:285], planted.weights[285:] * 3]),
        images=planted.images,
        labels=planted.labels,
    )
    losses = []
    for name, models in (("one", planted), ("other", changed)):
        train(models, config(), key=key, workdir=tmp_path / name)
        lines = history(tmp_path / name)
        losses.append([line["train_loss"] for line in lines])
        assert len(lines) == 12
    assert losses[0] == losses[1]


@pytest.mark.parametrize("sign", [1, -1])
def test_targets_grouped_by_label_are_refused(planted, key, sign):
    """The last ones validate: they would be of labels that training hasn't seen."""
    with pytest.raises(ValueError, match="grouped by label"):
        train(part(planted, np.argsort(sign * planted.labels)), config(), key=key)


def test_nan_stops_with_the_place(planted, key, tmp_path):
    broken = dataclasses.replace(planted)
    images = planted.images.copy()
    images[7] = np.nan
    object.__setattr__(broken, "images", images)  # `ShadowModels` refuses it
    with pytest.raises(
        FloatingPointError, match=r"nan in epoch 1, step \d+ of 17.*learning rate"
    ):
        train(broken, config(), key=key, workdir=tmp_path)


def test_nan_in_validation_stops_too(planted, key, tmp_path):
    weights, images = planted.weights.copy(), planted.images.copy()
    weights[299, 3], images[299, 3] = np.nan, np.nan
    labels = planted.labels
    broken = ShadowModels(weights=weights, images=planted.images, labels=labels)
    with pytest.raises(ValueError, match="such as number 299"):
        train(broken, config(), key=key, workdir=tmp_path)
    with pytest.raises(ValueError, match="NaN in 1 of 300 images"):
        ShadowModels(weights=planted.weights, images=images, labels=labels)
    broken = dataclasses.replace(planted)
    object.__setattr__(broken, "images", images)
    with pytest.raises(FloatingPointError, match="validation error became nan"):
        train(broken, config(), key=key, workdir=tmp_path)


def test_another_run_in_the_same_folder_is_refused(planted, key, tmp_path):
    """Other models, another key or configuration never resume a checkpoint."""
    arguments = {"workdir": tmp_path}
    first = train(planted, config(), key=key, **arguments)
    other = part(planted, slice(0, 299))
    with pytest.raises(ConfigurationMismatchError, match="models"):
        train(other, config(), key=key, **arguments)
    with pytest.raises(ConfigurationMismatchError, match="key"):
        train(planted, config(), key=jax.random.key(7), **arguments)
    with pytest.raises(ConfigurationMismatchError, match=r"clip: 10\.0 there, 9\.0"):
        train(planted, config(clip=9.0), key=key, **arguments)
    again = train(planted, config(), key=key, **arguments)
    jax.tree.map(np.testing.assert_array_equal, first.model.params, again.model.params)


@pytest.mark.parametrize("kind", ["network", "kernel"])
def test_a_run_whose_folder_another_has_taken_keeps_nothing(
    kind, planted, key, tmp_path, monkeypatch
):
    """The other begins before the first has kept anything."""
    own = config() if kind == "network" else reconn.Kernel()
    other = dataclasses.replace(own, clip=9.0)
    read = trainer.features.read

    def meanwhile(*arguments, **named):
        """The other trains at the same time; its reading is interrupted."""
        monkeypatch.setattr(trainer.features, "read", interrupted)
        with pytest.raises(Interrupt):
            train(planted, other, key=key, workdir=tmp_path)
        return read(*arguments, **named)

    def interrupted(*arguments, **named):
        raise Interrupt

    monkeypatch.setattr(trainer.features, "read", meanwhile)
    with pytest.raises(ConfigurationMismatchError, match="begun anew"):
        train(planted, own, key=key, workdir=tmp_path)
    monkeypatch.undo()
    with pytest.raises(FileNotFoundError, match="is not finished"):
        reconn.load(tmp_path)
    found = train(planted, other, key=key, workdir=tmp_path)
    assert found.standardiser.clip == 9.0


def test_what_is_not_finished_is_not_loaded(planted, key, tmp_path):
    with pytest.raises(FileNotFoundError, match="no reconstructor"):
        reconn.load(tmp_path)
    train(planted, config(), key=key, workdir=tmp_path)
    with pytest.raises(ConfigurationMismatchError, match=r"network.epochs: 12 there"):
        train(planted, config(epochs=20), key=key, workdir=tmp_path)
    reconn.load(tmp_path)
    (tmp_path / "reconstructor.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="is not finished"):
        reconn.load(tmp_path)


def test_the_file_of_a_finished_one_is_all_that_it_takes(planted, key, tmp_path):
    """Without checkpoints; clipped as it was; arrays under their names."""
    trained = train(planted, config(clip=1.5), key=key, workdir=tmp_path)
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(ConfigurationMismatchError, match="epochs"):
        train(planted, config(epochs=3), key=key, workdir=tmp_path)
    loaded, far = reconn.load(tmp_path), 9 * planted.weights
    np.testing.assert_array_equal(read_out(loaded, far), read_out(trained, far))
    assert np.abs(loaded.standardiser(far)).max() == 1.5
    arrays = safetensors.read(tmp_path / "reconstructor.safetensors")
    np.testing.assert_array_equal(
        arrays["standardiser/mean"], trained.standardiser.mean
    )
    for module, values in trained.model.params.items():
        for name, value in values.items():
            np.testing.assert_array_equal(arrays[f"network/{module}/{name}"], value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: reconn.mlp(activation="Relu"), r"activation.*Did you mean 'relu'"),
        (lambda: reconn.mlp(dropout=1.0), r"dropout in \[0, 1\), got 1"),
        (lambda: reconn.adam_cosine(learning_rate=0.0), r"learning_rate > 0"),
        (lambda: reconn.rmsprop(warmup_epochs=-1.0), r"warmup_epochs >= 0"),
        (lambda: config(validation_fraction=1.0), r"validation_fraction in \[0, 1\)"),
        (lambda: config(epochs=0), r"epochs >= 1"),
        (lambda: config(kept="least"), r"kept to be one of best, last"),
        (lambda: config(module="mlp"), r"module to be a Haiku function.*got 'mlp'"),
        (lambda: config(optimiser="adam"), r"optimiser to be an optimiser of optax"),
        # It would be taken for a function of the number of steps.
        (lambda: config(optimiser=optax.adam), r"call optax\.adam with its learning"),
        (lambda: reconn.Kernel(ridge=0.0), r"ridge > 0 and finite, got 0"),
        (lambda: reconn.Kernel(voters=0), r"voters >= 1"),
        (lambda: reconn.Loss(lpips=-1.0), r"lpips >= 0, got -1"),
        (lambda: reconn.Loss(mae=0.0, mse=0.0, adversarial=1.0), "nothing else ties"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_optimiser_of_optax_or_a_function_of_the_steps_is_taken():
    config(optimiser=optax.adam(1e-3))
    config(optimiser=lambda total, epoch: optax.adam(1.0 / total))


def test_fine_tuning_begins_where_another_network_ended(planted, key, tmp_path):
    """Few models and few steps are enough for what has learned nearly the same."""
    first, few = part(planted, slice(0, 200)), part(planted, slice(200, 240))
    unseen = part(planted, slice(240, None))
    few.weights[:, 3] = 0.5  # another fixed set leaves other weights where they were
    unseen.weights[:, 3] = 0.5
    one = train(first, config(epochs=40), key=key, workdir=tmp_path / "one")
    short = config(epochs=3)

    def error(workdir, **named):
        found = train(few, short, key=key, workdir=workdir, **named)
        return np.mean((read_out(found, unseen.weights) - unseen.images) ** 2)

    tuned = error(tmp_path / "tuned", start=one)
    assert tuned < 0.5 * error(tmp_path / "scratch")
    # What it began with is part of what decides it.
    assert (
        "start"
        in json.loads((tmp_path / "tuned" / "run.json").read_text())["configuration"]
    )
    loaded = reconn.load(tmp_path / "tuned")
    again = np.mean((read_out(loaded, unseen.weights) - unseen.images) ** 2)
    assert again == tuned
    with pytest.raises(ConfigurationMismatchError, match="start"):
        error(tmp_path / "tuned")
    # And training has left it as it was.
    before = read_out(one, unseen.weights)
    assert error(tmp_path / "again", start=one) == tuned
    np.testing.assert_array_equal(read_out(one, unseen.weights), before)


def test_a_start_of_another_architecture_is_refused(planted, key, tmp_path):
    one = train(planted, config(epochs=1), key=key, workdir=tmp_path / "one")
    other = {"key": key, "workdir": tmp_path / "other", "start": one}
    with pytest.raises(ValueError, match=r"start to have the architecture.*64"):
        train(planted, config(module=reconn.mlp(widths=(32,))), **other)
    longer = dataclasses.replace(planted, weights=np.tile(planted.weights, (1, 2)))
    with pytest.raises(ValueError, match=r"start to see 80 features.*got one of 40"):
        train(longer, config(), **other)
    with pytest.raises(ValueError, match=r"start is for reconn\.Network alone"):
        train(planted, reconn.Kernel(), **other)


def test_the_last_epoch_as_it_is_where_it_is_asked_for(planted, key, tmp_path):
    """The last epoch is kept, though its error isn't the least.

    At this learning rate errors rise and fall from epoch to epoch, on each processor in
    its own way: so many epochs are taken that the last one isn't the best.
    """
    fields = {"optimiser": optax.adamw(0.3, weight_decay=0.0)}

    def trained(name, epochs):
        return train(
            planted,
            config(epochs=epochs, kept=name, shrink=False, **fields),
            key=key,
            workdir=tmp_path / f"{name}-{epochs}",
        )

    for epochs in range(2, 9):
        last = trained("last", epochs)
        lines = history(tmp_path / f"last-{epochs}")
        errors = [line["validation_mse"] for line in lines]
        if errors[-1] > min(errors):
            break
    assert errors[-1] > min(errors)
    kept = {"last": last, "best": trained("best", epochs)}
    unseen = part(planted, slice(285, None))  # the validation part: 5 % of 300

    def error(name):
        return np.mean((read_out(kept[name], unseen.weights) - unseen.images) ** 2)

    assert error("last") == pytest.approx(errors[-1], rel=1e-4)
    assert error("best") == pytest.approx(min(errors), rel=1e-4)
    assert kept["last"].shrinkage.factor == 1
