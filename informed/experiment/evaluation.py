"""The last stage of a run: score the reconstructions and write results.json.

`pipeline.run` and `informed evaluate` call it. It is apart because it sees the targets
of the released models, as no attack may.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from informed import metrics, report
from informed.experiment import protection, stored
from informed.experiment.settings import Experiment
from informed.experiment.stored import Paths, Stage
from informed.metrics import Neighbours, judging
from shadow import files, records, victims
from shadow.models import ShadowModels
from shadow.victims import Victim

_ACCURACY_MODELS = 16  # released models whose accuracy is averaged
_SHOWN_TARGETS = 10  # columns of reconstructions.png


def evaluate(experiment: Experiment, paths: Paths) -> dict[str, Any]:
    """Write results.json and the pictures of a run; return the former's contents.

    Raises:
      NotMadeError: an attack has not been run.
      ConfigurationMismatchError, VersionMismatchError: models or attacks are of another
        configuration or version; names the fields.
    """
    file = paths.workdir / "results.json"
    shadows, released = stored.stores(experiment, paths)
    record = stored.evaluate_record(experiment, shadows, released)
    outputs = ("results.json", "reconstructions.png", "distances.png")
    stage = Stage(paths.workdir, "evaluate", record, outputs=outputs)
    if stage.done:
        return json.loads(file.read_text())
    for name in experiment.played:
        attacked = stored.attack_record(experiment, name, shadows, released)
        Stage.require(paths.workdir, f"attack-{name}", attacked)
    # Delete old results first, so a crash cannot leave stale ones.
    file.unlink(missing_ok=True)
    with stage.running():
        fixed, public = stored.fixed(shadows), stored.targets(shadows)
        developer = stored.factory_of(experiment, released, role="released", width=1)
        truth = released.read()
        pool = np.concatenate([fixed.images, public.images])
        metrics.refuse_leaks(truth.images, pool)
        neighbours = metrics.nearest_neighbours(truth.images, pool)
        rows = _compared(experiment, paths.workdir, truth, neighbours)
        _draw(paths.workdir, list(rows), truth, pool, neighbours)
        thetas = truth.weights[:_ACCURACY_MODELS]
        correct = accuracy(developer.descent.victim, thetas, truth)
        prior_labels = fixed.labels  # of the same distribution as the targets' labels
        if not experiment.data.shadow_name:
            prior_labels = np.concatenate([prior_labels, public.labels])
        theory = protection.of(developer, prior_labels)
        for name, row in rows.items():
            known = bool(experiment.attacks[name].known)
            guess = stored.guesses(paths.workdir, name)
            row |= protection.against(theory, developer, truth, guess, known=known)
        mean_image = np.broadcast_to(pool.mean(axis=0), truth.images.shape)
        copied: dict[str, Any] = {}
        for part, images in (("fixed", fixed.images), ("shadow", public.images)):
            among = metrics.nearest_neighbours(truth.images, images).copies
            copied[part] = {kind: int(which.sum()) for kind, which in among.items()}
    stages = {"shadow": paths.shadow, "evaluate": paths.workdir}
    stages |= {f"attack-{name}": paths.workdir for name in rows}
    seconds = {n: Stage.read(place, n)["wall_s"] for n, place in stages.items()}
    results = {
        "attacks": rows,
        "nn_oracle_mse": float(neighbours.mse.mean()),
        "mean_image_mse": float(metrics.mse(truth.images, mean_image).mean()),
        "distance_percentiles": {
            str(name): float(value)
            for name, value in zip(
                metrics.PERCENTILES, neighbours.percentiles.mean(axis=0), strict=True
            )
        },
        "copies": copied | {"dropped": released.manifest.get("dropped")},
        "released_accuracy": correct,
        **theory,
        "shadow_models": len(shadows),
        "num_targets": len(released),
        "num_fixed": len(fixed),
        "seed": experiment.seed,
        "stage_wall_s": seconds,
        "wall_s": round(sum(seconds.values()), 3),
        "picture": str(paths.workdir / "reconstructions.png"),
        "configuration": experiment.values,
        "versions": {
            "models": dict(released.record.versions),
            "attacks": {
                name: Stage.read(paths.workdir, f"attack-{name}")["versions"]
                for name in rows
            },
            "evaluation": dict(stage.record.versions),
            "packages": records.packages(),
        },
    }
    files.write_json(file, results)
    return results


def _compared(
    experiment: Experiment,
    workdir: Path,
    truth: ShadowModels,
    neighbours: Neighbours,
) -> dict[str, dict[str, Any]]:
    """Score every attack of the run; return its row of results by name."""
    rows = {}
    for name, named in experiment.played.items():
        guess = stored.guesses(workdir, name)
        count = len(guess["images"])
        lpips = None
        if experiment.evaluation.lpips:
            lpips = float(metrics.lpips(truth.images[:count], guess["images"]).mean())
        used = getattr(named.settings, "models", None) or experiment.shadow.count
        rows[name] = {
            "type": named.type,
            "sees": named.row.sees,
            **judging.compared(
                guess, truth.images, truth.labels, neighbours, known=named.known
            ),
            "lpips": lpips,
            "shadow_models": used if named.row.shadows else 0,
        }
    return rows


def _draw(
    workdir: Path,
    attacks: Sequence[str],
    truth: ShadowModels,
    pool: np.ndarray,
    neighbours: Neighbours,
) -> None:
    """Draw the first targets' reconstructions, and a histogram of distances."""
    shown = slice(0, _SHOWN_TARGETS)
    rows, means = {}, {}
    for name in attacks:
        images = stored.guesses(workdir, name)["images"]
        errors = metrics.mse(truth.images[: len(images)], images)
        rows[name] = (images[shown], errors[shown])
        if len(images) == len(truth.images):
            means[name] = float(errors.mean())
    report.reconstruction_grid(
        workdir / "reconstructions.png",
        targets=truth.images[shown],
        attacks=rows,
        neighbours=pool[neighbours.index[shown]],
        neighbour_errors=neighbours.mse[shown],
    )
    report.distance_histogram(workdir / "distances.png", neighbours, means)


def accuracy(victim: Victim, thetas: np.ndarray, targets: ShadowModels) -> float | None:
    """Return models' mean accuracy on other models' targets; None: there are none.

    `thetas` are (models, params); each was trained on the target of its number.
    """
    images, labels = targets.images, targets.labels
    if len(labels) < 2:
        return None
    scores = []
    for i, theta in enumerate(thetas):
        params = victim.unflatten(jnp.asarray(theta, jnp.float32))
        others = np.arange(len(labels)) != i
        scores.append(victims.accuracy(victim, params, images[others], labels[others]))
    return float(np.mean(scores))
