"""The main job in five stages, each resumable, each reading what the one before wrote.

    shadow     <shadow>/shadow/, <shadow>/released/   stores of trained models
    train      <workdir>/reconn/                      the RecoNN
    attack     <workdir>/reconstructions.npz          its guesses at the test targets
    invert     <workdir>/inversions.npz               inversions of a few of them
    evaluate   <workdir>/results.json, *.png          the comparison with the truth

A finished stage does nothing; an interrupted one goes on; one begun with another
configuration is refused, and the message names the fields that differ. `<shadow>` is
the same folder as `<workdir>` unless another run's shadow models are to be attacked.
"""

import dataclasses
import hashlib
import io
import itertools
import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from informed import classifier, metrics, protection, report
from informed.attacks.inversion import TrainingInversion
from informed.attacks.reconn import ReconnAttack
from informed.experiment import Experiment
from informed.stages import Stage
from informed.threat import Knowledge, Release
from reconn import trainer
from reconn.views import View
from shadow import checks, data, files, victims
from shadow.factory import Factory
from shadow.store import ShadowStore, versions

STAGES = ("shadow", "train", "attack", "invert", "evaluate")
_ACCURACY_MODELS = 16
_SHOWN_TARGETS = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Paths:
    """Where a run reads and writes.

    Attributes:
      workdir: folder of the run.
      shadow: folder whose shadow and released models are used; default: workdir.
      data_dir: TFDS folder; None: TFDS_DATA_DIR.
    """

    workdir: Path
    shadow: Path
    data_dir: str | None = None


def run(experiment: Experiment, paths: Paths, *, progress: bool = True) -> dict:
    """All stages. Returns the contents of results.json."""
    shadow(experiment, paths, progress=progress)
    train(experiment, paths, progress=progress)
    attack(experiment, paths)
    invert(experiment, paths, progress=progress)
    return evaluate(experiment, paths)


def shadow(experiment: Experiment, paths: Paths, *, progress: bool = True) -> None:
    """Train the shadow models and the released models of the test targets."""
    stage = Stage(
        paths.shadow,
        "shadow",
        _shadow_configuration(experiment),
        outputs=("shadow/manifest.json", "released/manifest.json"),
    )
    if stage.done and not any(store.missing() for store in _stores(paths)):
        return
    config = experiment.data
    pool = data.load(config.name, data_dir=paths.data_dir)
    split = data.split(
        pool,
        num_fixed=config.num_fixed,
        num_shadow=experiment.shadow.count,
        num_test=config.num_test,
        seed=experiment.seed,
        balanced=config.balanced,
        shadow_pool=(
            data.load(config.shadow_name, data_dir=paths.data_dir)
            if config.shadow_name
            else None
        ),
    )
    victim = victims.build(
        experiment.victim, image_shape=pool.image_shape, num_classes=pool.num_classes
    )
    with stage.running():
        for role, targets in (("released", split.test), ("shadow", split.shadow)):
            factory = Factory(
                victim=victim,
                training=experiment.training,
                fixed=split.fixed,
                key=experiment.training_key,
                role=role,
                width=experiment.shadow.models_per_batch,
            )
            store = ShadowStore.create(
                paths.shadow / role,
                configuration=experiment.model_configuration,
                victim=victim,
                split=split,
                role=role,
                block_size=experiment.shadow.block_size,
                initialisation=Knowledge.informed(factory).initialisation,
                models_per_batch=factory.width,
            )
            width = store.manifest["models_per_batch"]
            if experiment.shadow.models_per_batch is None and width != factory.width:
                factory = dataclasses.replace(factory, width=width)
            factory.fill(store, targets, progress=progress, on_block=stage.note)


def verify(paths: Paths, *, progress: bool = True) -> dict[str, list[int]]:
    """Check every block of the stores against its checksum; remake corrupt ones.

    Returns: store name -> numbers of the blocks that were corrupt.
    Raises: FileNotFoundError: no shadow models there.
    """
    corrupt = {}
    for store in _stores(paths):
        blocks = store.verify()
        for block in blocks:
            store.drop_block(block)
        corrupt[store.path.name] = blocks
    if any(corrupt.values()):
        configuration = Stage.read(paths.shadow, "shadow")["configuration"]
        del configuration["files"]
        shadow(Experiment.from_mapping(configuration), paths, progress=progress)
    return corrupt


def train(experiment: Experiment, paths: Paths, *, progress: bool = True) -> None:
    """Train the RecoNN on the shadow models. The released ones are not opened."""
    store = ShadowStore(paths.shadow / "shadow")
    stage = Stage(
        paths.workdir,
        "train",
        _train_configuration(experiment, store),
        outputs=("reconn/run.json",),
    )
    if stage.done:
        return
    with stage.running():
        trainer.train(
            store,
            experiment.reconn,
            key=experiment.reconn_key,
            workdir=paths.workdir / "reconn",
            view=_view(experiment, store),
            progress=progress,
            on_epoch=stage.note,
        )


def attack(experiment: Experiment, paths: Paths) -> None:
    """Reconstruct the test targets from the weights of the released models alone."""
    store = ShadowStore(paths.shadow / "shadow")
    released = ShadowStore(paths.shadow / "released")
    stage = Stage(
        paths.workdir,
        "attack",
        _attack_configuration(experiment, store, released),
        outputs=("reconstructions.npz",),
    )
    if stage.done:
        return
    with stage.running():
        attacker = ReconnAttack(
            trainer.load(
                paths.workdir / "reconn",
                experiment.reconn,
                store.image_shape,
                _view(experiment, store),
            )
        )
        release = Release(weights=released.read().weights)
        guess = attacker(release, Knowledge(), key=experiment.reconn_key)
        arrays = {"images": guess.images}
        if guess.labels is not None:
            arrays["labels"] = guess.labels
        _write(paths.workdir / "reconstructions.npz", **arrays)


def invert(experiment: Experiment, paths: Paths, *, progress: bool = True) -> None:
    """Invert the training of the first released models, from weights and D_- alone."""
    count = experiment.inversion.targets
    if not count:
        return
    store = ShadowStore(paths.shadow / "shadow")
    released = ShadowStore(paths.shadow / "released")
    stage = Stage(
        paths.workdir,
        "invert",
        _invert_configuration(experiment, store, released),
        outputs=("inversions.npz",),
    )
    if stage.done:
        return
    with stage.running():
        public = examples(store, *_targets(store))
        developer = factory_of(experiment, store, role="released", width=1)
        attacker = TrainingInversion(
            config=experiment.inversion.attack, progress=progress
        )
        found = attacker(
            Release(weights=released.read().weights[:count]),
            Knowledge.informed(developer, public=public),
            key=experiment.inversion_key,
        )
        _write(
            paths.workdir / "inversions.npz",
            images=found.images,
            labels=np.asarray(found.labels),
            residuals=np.asarray(found.residuals),
            certified=np.asarray(found.certified),
            expected_mse=np.asarray(found.expected_mse),
        )


def evaluate(experiment: Experiment, paths: Paths) -> dict[str, Any]:
    """Compare the reconstructions with the targets; draw; write results.json.

    Returns: the contents of results.json.
    Raises: FileNotFoundError: nothing was attacked yet.
    """
    file = paths.workdir / "results.json"
    shadows = ShadowStore(paths.shadow / "shadow")
    released = ShadowStore(paths.shadow / "released")
    stage = Stage(
        paths.workdir,
        "evaluate",
        _attack_configuration(experiment, shadows, released)
        | _invert_configuration(experiment, shadows, released)
        | {"evaluation": dataclasses.asdict(experiment.evaluation)},
        outputs=("results.json", "reconstructions.png", "distances.png"),
    )
    if stage.done:
        return json.loads(file.read_text())
    needed = {"attack": "reconstructions.npz"}
    if experiment.inversion.targets:
        needed["invert"] = "inversions.npz"
    for command, name in needed.items():
        if not (paths.workdir / name).exists():
            raise FileNotFoundError(
                f"No {name} in {paths.workdir}. Make it with `informed {command}`."
            )
    with stage.running():
        guess = read_arrays(paths.workdir / "reconstructions.npz")
        guesses, truth = guess["images"], released.read()
        inverted, inversion_errors = None, np.empty(0)
        if experiment.inversion.targets:
            inverted = read_arrays(paths.workdir / "inversions.npz")
            count = len(inverted["images"])
            inversion_errors = metrics.mse(truth.images[:count], inverted["images"])
        pool = np.concatenate([shadows.array("fixed_images"), _targets(shadows)[0]])
        metrics.refuse_leaks(truth.images, pool)
        others = other_metrics(experiment, paths, released, truth.images, guesses)
        accuracy = None
        if "KL" in others:
            accuracy = _classifier(experiment, paths, released).accuracy
        errors = metrics.mse(truth.images, guesses)
        mean_image = np.broadcast_to(pool.mean(axis=0), truth.images.shape)
        neighbours = metrics.nearest_neighbours(truth.images, pool)
        shown = slice(0, _SHOWN_TARGETS)
        report.reconstruction_grid(
            paths.workdir / "reconstructions.png",
            targets=truth.images[shown],
            reconstructions=guesses[shown],
            neighbours=pool[neighbours.index[shown]],
            errors=errors[shown],
            neighbour_errors=neighbours.mse[shown],
            inversions=None if inverted is None else inverted["images"][shown],
            inversion_errors=inversion_errors[shown],
            attack=report.ATTACKS[experiment.reconn.kind],
        )
        report.distance_histogram(
            paths.workdir / "distances.png",
            neighbours,
            float(errors.mean()),
            report.ATTACKS[experiment.reconn.kind],
        )
    percentiles = neighbours.percentiles.mean(axis=0)
    stages = [name for name in STAGES if name != "invert" or inverted is not None]
    seconds = {
        name: Stage.read(paths.shadow if name == "shadow" else paths.workdir, name)[
            "wall_s"
        ]
        for name in stages
    }
    results = {
        "reconn_mse": float(errors.mean()),
        "reconn_mse_standard_error": float(errors.std(ddof=1) / len(errors) ** 0.5)
        if len(errors) > 1
        else None,
        "reconn_mse_median": float(np.median(errors)),
        "nn_oracle_mse": float(neighbours.mse.mean()),
        "reconn_labels_right": float(np.mean(guess["labels"] == truth.labels))
        if "labels" in guess
        else None,
        **{
            f"reconn_{name.lower()}": float(others[name].mean())
            if name in others
            else None
            for name in ("LPIPS", "KL")
        },
        "classifier_accuracy": accuracy,
        "mean_image_mse": float(metrics.mse(truth.images, mean_image).mean()),
        "distance_percentiles": {
            str(name): float(value)
            for name, value in zip(metrics.PERCENTILES, percentiles, strict=True)
        },
        "closer_than_oracle": dataclasses.asdict(
            metrics.success_rate(errors < neighbours.mse)
        ),
        **_inversion_results(truth, inverted, inversion_errors),
        "released_accuracy": _released_accuracy(experiment, released, truth),
        **protection.of(experiment.training, _targets(shadows)[1]),
        "shadow_models": experiment.reconn.models or len(shadows),
        "num_targets": len(released),
        "num_fixed": len(shadows.array("fixed_labels")),
        "seed": experiment.seed,
        "stage_wall_s": seconds,
        "wall_s": round(sum(seconds.values()), 3),
        "picture": str(paths.workdir / "reconstructions.png"),
        "configuration": dataclasses.asdict(experiment),
        "versions": versions(),
    }
    files.write_json(file, results)
    return results


def _shadow_configuration(experiment: Experiment) -> dict[str, Any]:
    """What decides the two stores."""
    shadow = {
        "count": experiment.shadow.count,
        "block_size": experiment.shadow.block_size,
    }
    names = (experiment.data.name, experiment.data.shadow_name)
    hashes = {
        name: hashlib.sha256(Path(name).read_bytes()).hexdigest()
        for name in names
        if name and name.endswith(".npz") and Path(name).is_file()
    }
    return experiment.model_configuration | {"shadow": shadow, "files": hashes}


def _train_configuration(experiment: Experiment, store: ShadowStore) -> dict[str, Any]:
    """What decides the RecoNN."""
    return {
        "seed": experiment.seed,
        "view": dataclasses.asdict(experiment.view),
        "reconn": dataclasses.asdict(experiment.reconn),
        "shadow_models": len(store),
        "shadow_fingerprint": store.fingerprint(),
    }


def _attack_configuration(
    experiment: Experiment, store: ShadowStore, released: ShadowStore
) -> dict[str, Any]:
    """What decides the reconstructions."""
    return _train_configuration(experiment, store) | {
        "released_fingerprint": released.fingerprint()
    }


def _invert_configuration(
    experiment: Experiment, store: ShadowStore, released: ShadowStore
) -> dict[str, Any]:
    """What decides the inversions."""
    return {
        "seed": experiment.seed,
        "inversion": dataclasses.asdict(experiment.inversion),
        "shadow_fingerprint": store.fingerprint(),
        "released_fingerprint": released.fingerprint(),
    }


def _inversion_results(
    truth: Any, inverted: dict[str, np.ndarray] | None, errors: np.ndarray
) -> dict[str, Any]:
    """What results.json says of the inversions; None where there are none."""
    if inverted is None:
        return {"inversion_targets": 0, "inversion_mse_median": None}
    count = len(errors)
    return {
        "inversion_targets": count,
        "inversion_mse_median": float(np.median(errors)),
        "inversion_mse_largest": float(errors.max()),
        "inversion_certified": int(inverted["certified"].sum()),
        "inversion_labels_right": int(
            (inverted["labels"] == truth.labels[:count]).sum()
        ),
    }


def other_metrics(
    experiment: Experiment,
    paths: Paths,
    released: ShadowStore,
    targets: np.ndarray,
    guesses: np.ndarray,
) -> dict[str, np.ndarray]:
    """LPIPS and KL of every target, where the configuration asks for them."""
    found = {}
    if experiment.evaluation.lpips:
        found["LPIPS"] = metrics.lpips(targets, guesses)
    if experiment.evaluation.classifier.epochs:
        judge = _classifier(experiment, paths, released)
        found["KL"] = judge.kl(targets, guesses)
    return found


def _classifier(
    experiment: Experiment, paths: Paths, released: ShadowStore
) -> classifier.Classifier:
    """Trained on all images of the data set but the targets; kept with the models."""
    configuration = {
        "seed": experiment.seed,
        "classifier": dataclasses.asdict(experiment.evaluation.classifier),
        "released_fingerprint": released.fingerprint(),
    }
    name = f"classifier-{checks.fingerprint(configuration)[:8]}"
    file = paths.shadow / f"{name}.npz"
    stage = Stage(paths.shadow, name, configuration, outputs=(file.name,))
    if not stage.done:
        with stage.running():
            pool = data.load(experiment.data.name, data_dir=paths.data_dir)
            left = np.setdiff1d(np.arange(len(pool)), released.array("test_indices"))
            left = np.random.default_rng(experiment.seed).permutation(left)
            trained = classifier.train(
                pool.take(left),
                experiment.evaluation.classifier,
                key=experiment.classifier_key,
            )
            trained.save(file)
    return classifier.Classifier.load(
        file, released.image_shape, released.manifest["num_classes"]
    )


def _write(file: Path, **arrays: np.ndarray) -> None:
    """Write an .npz file in one step."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    files.write_bytes(file, buffer.getvalue())


def read_arrays(file: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file; never unpickled."""
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def _victim(experiment: Experiment, store: ShadowStore) -> victims.Victim:
    """The victim whose models a store holds."""
    return victims.build(
        experiment.victim,
        image_shape=store.image_shape,
        num_classes=store.manifest["num_classes"],
    )


def factory_of(
    experiment: Experiment, store: ShadowStore, *, role: str, width: int | None = None
) -> Factory:
    """The factory that made a store, on the store's own fixed set."""
    return Factory(
        victim=_victim(experiment, store),
        training=experiment.training,
        fixed=examples(store, store.array("fixed_images"), store.array("fixed_labels")),
        key=experiment.training_key,
        role=role,
        width=width,
    )


def _view(experiment: Experiment, store: ShadowStore) -> View:
    """What the RecoNN sees; the first shadow targets are the probes."""
    blocks = -(-experiment.view.probes // store.manifest["block_size"])
    first = itertools.islice(store.blocks(), blocks)
    public = np.concatenate([block.images for block in first])
    return experiment.view.view(_victim(experiment, store), public)


def examples(
    store: ShadowStore, images: np.ndarray, labels: np.ndarray
) -> data.Examples:
    """Images and labels of a store as examples."""
    return data.Examples(
        images=images,
        labels=labels,
        num_classes=store.manifest["num_classes"],
        name="store",
    )


def _stores(paths: Paths) -> list[ShadowStore]:
    """Both stores of the shadow stage."""
    return [ShadowStore(paths.shadow / role) for role in ("released", "shadow")]


def _targets(store: ShadowStore) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of all targets of a store, without keeping its weights."""
    pairs = [(block.images, block.labels) for block in store.blocks()]
    images, labels = zip(*pairs, strict=True)
    return np.concatenate(images), np.concatenate(labels)


def _released_accuracy(
    experiment: Experiment, released: ShadowStore, truth: Any
) -> float:
    """Mean test accuracy of some released models.

    Tested on the test targets, of which each model has seen one in training.
    """
    victim = _victim(experiment, released)
    scores = [
        victims.accuracy(
            victim, victim.unflatten(jnp.asarray(theta)), truth.images, truth.labels
        )
        for theta in truth.weights[:_ACCURACY_MODELS]
    ]
    return float(np.mean(scores))
