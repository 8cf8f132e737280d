"""The last stage: the comparison with the truth, and results.json."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from informed import metrics, report
from informed.attacks import registry
from informed.metrics import classifier
from informed.runs import protection, stored
from informed.runs.experiment import Experiment
from informed.runs.stages import STAGES, Paths, Stage
from shadow import copies, data, files, places, records, victims
from shadow.models import ShadowModels
from shadow.records import Record
from shadow.store import ShadowStore

_ACCURACY_MODELS = 16
_SHOWN_TARGETS = 10


def evaluate(experiment: Experiment, paths: Paths) -> dict[str, Any]:
    """Compare the reconstructions with the targets; draw; write results.json.

    Returns: the contents of results.json.
    Raises:
      NotMadeError: nothing was attacked yet.
      ConfigurationMismatchError, VersionMismatchError: models or attacks were made
        otherwise; names the fields.
    """
    file = paths.workdir / "results.json"
    shadows, released = stored.stores(experiment, paths)
    stage = Stage(
        paths.workdir,
        "evaluate",
        stored.evaluate_record(experiment, shadows, released),
        outputs=("results.json", "reconstructions.png", "distances.png"),
    )
    if stage.done:
        return json.loads(file.read_text())
    needed = {"attack": stored.attack_record(experiment, shadows, released)}
    if experiment.inversion.targets:
        needed["invert"] = stored.invert_record(experiment, shadows, released)
    for name in experiment.attacks:
        needed[f"attack-{name}"] = stored.named_record(
            experiment, name, shadows, released
        )
    for name, record in needed.items():
        Stage.require(paths.workdir, name, record)
    with stage.running():
        guess = files.read_arrays(paths.workdir / "reconstructions.npz")
        guesses, truth = guess["images"], released.read()
        inverted, inversion_errors = None, np.empty(0)
        if experiment.inversion.targets:
            inverted = files.read_arrays(paths.workdir / "inversions.npz")
            count = len(inverted["images"])
            inversion_errors = metrics.mse(truth.images[:count], inverted["images"])
        public, labels = stored.targets(shadows)
        pool = np.concatenate([shadows.array("fixed_images"), public])
        metrics.refuse_leaks(truth.images, pool)
        known = _copies(truth.images, shadows.array("fixed_images"), public)
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
            others=_rows(experiment, paths, truth, inverted, shown),
            attack=report.ATTACKS[experiment.reconn.kind],
        )
        report.distance_histogram(
            paths.workdir / "distances.png",
            neighbours,
            float(errors.mean()),
            report.ATTACKS[experiment.reconn.kind],
        )
    right = guess["labels"] == truth.labels if "labels" in guess else None
    developer = stored.factory_of(experiment, released, role="released", width=1)
    kind = shadows.array("fixed_labels")  # drawn as the targets are
    if not experiment.data.shadow_name:
        kind = np.concatenate([kind, labels])
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
        "reconn_mae": float(metrics.mae(truth.images, guesses).mean()),
        "nn_oracle_mse": float(neighbours.mse.mean()),
        "reconn_labels_right": None if right is None else float(right.mean()),
        **{
            f"reconn_{name.lower()}": float(others[name].mean())
            if name in others
            else None
            for name in ("LPIPS", "KL")
        },
        "classifier_accuracy": accuracy,
        "copies": known | {"dropped": released.manifest.get("dropped")},
        "mean_image_mse": float(metrics.mse(truth.images, mean_image).mean()),
        "distance_percentiles": {
            str(name): float(value)
            for name, value in zip(metrics.PERCENTILES, percentiles, strict=True)
        },
        "closer_than_oracle": dataclasses.asdict(
            metrics.success_rate(errors < neighbours.mse)
        ),
        **_inversion_results(truth, inverted, inversion_errors),
        "attacks": _by_name(experiment, paths, truth, neighbours.mse, guess, inverted),
        "released_accuracy": _released_accuracy(experiment, released, truth),
        **protection.of(developer, kind, truth.images, guesses, right),
        "shadow_models": experiment.reconn.models or len(shadows),
        "num_targets": len(released),
        "num_fixed": len(shadows.array("fixed_labels")),
        "seed": experiment.seed,
        "stage_wall_s": seconds,
        "wall_s": round(sum(seconds.values()), 3),
        "picture": str(paths.workdir / "reconstructions.png"),
        "configuration": dataclasses.asdict(experiment),
        "versions": {
            "models": dict(released.record.versions),
            "reconstructions": Stage.read(paths.workdir, "attack")["versions"],
            "evaluation": dict(stage.record.versions),
            "packages": records.packages(),
        },
    }
    files.write_json(file, results)
    return results


def _copies(
    targets: np.ndarray, fixed: np.ndarray, public: np.ndarray
) -> dict[str, dict[str, int]]:
    """How many targets have exact and near copies in D_- and among shadow targets."""
    return {
        "fixed": copies.find(targets, fixed).counts,
        "shadow": copies.find(targets, public).counts,
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


def _rows(
    experiment: Experiment,
    paths: Paths,
    truth: ShadowModels,
    inverted: Mapping[str, np.ndarray] | None,
    shown: slice,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Images and errors of the attacks beside the reconstructor, for the picture."""
    found = {} if inverted is None else {"training inversion": inverted["images"]}
    for name in experiment.attacks:
        found[name] = _named(paths, name)["images"]
    return {
        name: (
            images[shown],
            metrics.mse(truth.images[: len(images)], images)[shown],
        )
        for name, images in found.items()
    }


def _named(paths: Paths, name: str) -> dict[str, np.ndarray]:
    return files.read_arrays(paths.workdir / "attacks" / f"{name}.npz")


def _by_name(
    experiment: Experiment,
    paths: Paths,
    truth: ShadowModels,
    oracle: np.ndarray,
    guess: Mapping[str, np.ndarray],
    inverted: Mapping[str, np.ndarray] | None,
) -> dict[str, dict[str, Any]]:
    """What every attack of the run found, by its name."""
    found = {"reconn": (experiment.reconn.kind.replace("network", "reconn"), guess)}
    if inverted is not None:
        found["inversion"] = ("inversion", inverted)
    for name, named in experiment.attacks.items():
        found[name] = (named.type, _named(paths, name))
    return {
        name: _summary(kind, truth, oracle, arrays)
        for name, (kind, arrays) in found.items()
    }


def _summary(
    kind: str, truth: ShadowModels, oracle: np.ndarray, found: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """One attack's reconstructions beside the truth."""
    count = len(found["images"])
    errors = metrics.mse(truth.images[:count], found["images"])
    right = found["labels"] == truth.labels[:count] if "labels" in found else None
    certified = found.get("certified")
    return {
        "type": kind,
        "sees": registry.find(kind).sees,
        "targets": count,
        "mse": float(errors.mean()),
        "mse_median": float(np.median(errors)),
        "mse_largest": float(errors.max()),
        "labels_right": None if right is None else int(right.sum()),
        "certified": None if certified is None else int(certified.sum()),
        "closer_than_oracle": float(np.mean(errors < oracle[:count])),
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
    """Trained on all images of the data set but the targets.

    Kept with the models, or with the run where they are in a bucket.
    """
    configuration = {
        "seed": experiment.seed,
        "classifier": dataclasses.asdict(experiment.evaluation.classifier),
        "released_fingerprint": released.fingerprint(),
    }
    record = Record.of(configuration, classifier=classifier.REVISION)
    name = f"classifier-{record.fingerprint()[:8]}"
    models = places.at(paths.shadow)
    folder = models.path if isinstance(models, places.Folder) else paths.workdir
    file = folder / f"{name}.npz"
    stage = Stage(folder, name, record, outputs=(file.name,))
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


def _released_accuracy(
    experiment: Experiment, released: ShadowStore, truth: Any
) -> float:
    """Mean test accuracy of some released models.

    Tested on the test targets, of which each model has seen one in training.
    """
    victim = stored.victim_of(experiment, released)
    scores = [
        victims.accuracy(
            victim, victim.unflatten(jnp.asarray(theta)), truth.images, truth.labels
        )
        for theta in truth.weights[:_ACCURACY_MODELS]
    ]
    return float(np.mean(scores))
