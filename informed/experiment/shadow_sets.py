"""Inspect, verify and merge shadow data sets, which many machines may have made.

`cli.shadow_command` calls it for `informed shadow info|verify|merge`, which take the
address of a store, or of a place with a run's two stores (`shadow`, `released`): a
folder, or an address such as s3://bucket/mnist. `verify` removes corrupt blocks and may
train models; `merge` writes stores.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from informed.experiment import pipeline, stored
from informed.experiment.settings import Experiment
from informed.experiment.stored import Paths
from shadow import devices, merging, places
from shadow.commits import Commit
from shadow.factory import Factory
from shadow.manifests import MANIFEST, PER_MODEL
from shadow.places import Address
from shadow.records import NotMadeError
from shadow.store import Store

SAMPLE = 8  # models of each store that `verify` retrains by default
# Largest difference of a retrained model, as a share of its largest weight. Changing
# one of few training points makes a larger difference; see `_of_another` for many.
TOLERANCE = 1e-4
_FAR = 1e30  # a distance that JSON can hold
_EXPERIMENT = ("seed", "data", "victim", "training")


class WrongModelsError(RuntimeError):
    """Stored models pass their checksums, but differ from their configuration's."""


def find(address: Address) -> dict[str, Store]:
    """Return the stores at an address, by role.

    Raises: NotMadeError: there are no stores.
    """
    place = places.at(address)
    if place.has(MANIFEST):
        store = Store(place)
        return {store.manifest["role"]: store}
    roles = [role for role in pipeline.ROLES if place.below(role).has(MANIFEST)]
    if not roles:
        raise NotMadeError(
            f"There is no shadow store at {place}, nor in it under"
            f" {' or '.join(pipeline.ROLES)}.",
            by="shadow",
        )
    return {role: Store(place.below(role)) for role in roles}


def info(address: Address) -> dict[str, Any]:
    """Return facts of the stores at an address, from manifests and one listing each.

    Returns: by role: sizes, bytes when finished, blocks committed, configuration,
      versions, fingerprint.
    Raises: as `find`.
    """
    return {role: _about(store) for role, store in find(address).items()}


def _about(store: Store) -> dict[str, Any]:
    """Return what `info` says of one store."""
    manifest = store.manifest
    per_model = manifest["num_params"] + math.prod(store.image_shape) + 1
    return {
        "store": str(store.place),
        "models": len(store),
        "params": manifest["num_params"],
        "image_shape": list(store.image_shape),
        "classes": manifest["num_classes"],
        "block_size": manifest["block_size"],
        "blocks": store.num_blocks,
        "blocks_committed": store.num_blocks - len(store.missing()),
        "bytes": 4 * len(store) * per_model,
        "layout": manifest["layout"],
        "configuration": manifest["configuration"],
        "versions": manifest["versions"],
        "fingerprint": manifest["fingerprint"],
    }


def described(facts: Mapping[str, Any]) -> str:
    """Format the result of `info` as text."""
    return "\n".join(
        line
        for role, about in facts.items()
        for line in (
            f"{role:<10}{about['store']}",
            f"{'':<10}{about['models']} models of {about['params']} parameters,"
            f" images {tuple(about['image_shape'])}, {about['classes']} classes,"
            f" {about['bytes'] / 1e6:.1f} MB",
            f"{'':<10}{about['blocks_committed']} of {about['blocks']} blocks of"
            f" {about['block_size']}, fingerprint {about['fingerprint'][:12]}",
        )
    )


def verify(
    address: Address,
    *,
    sample: int = SAMPLE,
    data_dir: str | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Check every block against its checksum, and retrain a sample of the models.

    Corrupt blocks are removed; those of a run are remade at once.

    Args:
      address: address of a store, or of a run's two stores.
      sample: number of models of each store to retrain, drawn at random.
      data_dir: TFDS folder, for remaking.
      progress: whether to show a bar while remaking.
    Returns: "remade", whether corrupt blocks were remade; and three dicts by role:
      "corrupt", the corrupt blocks; "metadata", files that were restored;
      "trained_again", the result of `train_again`.
    Raises: as `find`; CorruptBlockError: an array without blocks is corrupt.
    """
    stores = find(address)
    metadata = {role: store.damaged_metadata() for role, store in stores.items()}
    corrupt = {role: store.verify() for role, store in stores.items()}
    for role, blocks in corrupt.items():
        for block in blocks:
            stores[role].drop_block(block)
    begun = places.at(address).has("stages/shadow.json")
    remade = begun and any(corrupt.values())
    if remade:
        paths = Paths(workdir=Path(), shadow=address, data_dir=data_dir)
        pipeline.remake(paths, progress=progress)
    again = {role: train_again(store, sample) for role, store in stores.items()}
    return {
        "corrupt": corrupt,
        "remade": remade,
        "metadata": metadata,
        "trained_again": again,
    }


def train_again(store: Store, sample: int) -> dict[str, Any]:
    """Retrain a random sample of a store's models; return how the weights compare.

    A model that was trained on this kind of device by the same versions must be equal
    to the last bit, if such devices are reproducible (`devices.repeats_bits`). Any
    other may differ by `TOLERANCE` of its largest weight, because sums are rounded in
    another order. If the shared theta_0 differs from the configuration's, all models
    count as wrong.

    Returns: "models", numbers of the sample; "bits", how many of them had to be equal
      to the last bit; "differ", numbers of those that are too far; "largest"
      difference, as a share of the model's largest weight. "models" is empty if nothing
      is committed, or the store's algorithm is not the toolkit's own.
    """
    nothing = {"models": [], "bits": 0, "differ": [], "largest": 0.0}
    experiment = _experiment(store)
    done = np.setdiff1d(np.arange(store.num_blocks), store.missing())
    if experiment is None or not len(done) or sample < 1:
        return nothing
    rows = np.concatenate([np.arange(*store.block_range(int(b))) for b in done])
    size = store.manifest["block_size"]
    drawn = np.random.default_rng().permutation(rows)[:sample]
    chosen = np.sort(drawn)
    # Blocks that were made in the same way are retrained together.
    alike: dict[tuple, list[int]] = {}
    for block in np.unique(chosen // size):
        commit = store.committed(int(block))
        if commit is not None:  # another process may have removed it just now
            made = commit.made.trained_with
            program = made.get("width"), made.get("form")
            alike.setdefault((program, _same_bits(store, commit)), []).append(
                int(block)
            )
    checked, distances, differ, bits = [], [], [], 0
    for ((width, form), exact), blocks in alike.items():
        models = [store.read_block(block) for block in blocks]
        of_blocks = [chosen[chosen // size == block] for block in blocks]
        wanted, images, labels = (
            np.concatenate(
                [
                    getattr(read, name)[ids - block * size]
                    for read, ids, block in zip(models, of_blocks, blocks, strict=True)
                ]
            )
            for name in PER_MODEL
        )
        ids = np.concatenate(of_blocks)
        factory = stored.factory_of(
            experiment,
            store,
            role=store.manifest["role"],
            # Bits depend on the width, so it must be the same if bits are compared.
            width=width if exact else None,
            form=form if exact else None,
        )
        if not exact:
            own = min(factory.trained_with["width"], len(ids))
            factory = dataclasses.replace(factory, width=own)
        targets = stored.examples(store, images, labels)
        retrained = factory.train(targets, ids=ids).astype(np.float32)
        largest = np.abs(wanted).max(axis=1)
        distance = np.abs(retrained - wanted).max(axis=1) / largest
        # NaN counts as a large distance.
        distance = np.nan_to_num(distance, nan=_FAR, posinf=_FAR)
        wrong = distance > TOLERANCE
        if exact:
            wrong = (retrained != wanted).any(axis=1)
        else:
            wrong |= _of_another(retrained, wanted, images)
        apart = _theta_0_apart(factory)
        if apart > TOLERANCE:
            wrong[:] = True
            distance = np.maximum(distance, apart)
        checked += ids.tolist()
        distances += distance.tolist()
        differ += ids[wrong].tolist()
        bits += len(ids) if exact else 0
    return {
        "models": sorted(checked),
        "bits": bits,
        "differ": sorted(differ),
        "largest": max(distances, default=0.0),
    }


def _of_another(
    retrained: np.ndarray, wanted: np.ndarray, images: np.ndarray
) -> np.ndarray:
    """Return which stored models are nearer to another target's retrained model.

    This is needed because one of many thousands of training points moves the weights by
    less than `TOLERANCE`.
    """
    flat = images.reshape(len(images), -1)
    wrong = np.zeros(len(retrained), bool)
    for i, model in enumerate(retrained):
        others = wanted[(flat != flat[i]).any(axis=1)]
        if len(others):
            apart = np.abs(others - model).max(axis=1)
            nearest = np.nan_to_num(apart, nan=_FAR, posinf=_FAR).min()
            wrong[i] = not np.abs(wanted[i] - model).max() <= nearest
    return wrong


def _theta_0_apart(factory: Factory) -> float:
    """Return the distance of a store's shared theta_0 from its configuration's."""
    if factory.start is None:
        return 0.0
    drawn = dataclasses.replace(factory, start=None).initialisation
    assert drawn is not None  # shared, so the algorithm draws it
    apart = np.abs(drawn - factory.start).max() / np.abs(factory.start).max()
    return float(np.nan_to_num(apart, nan=_FAR, posinf=_FAR))


def _same_bits(store: Store, commit: Commit) -> bool:
    """Return whether retraining here must reproduce a block's models bit for bit."""
    kind = devices.kind()
    same = commit.made.device == kind and devices.repeats_bits(kind)
    return same and store.versions() == dict(commit.made.versions)


def _experiment(store: Store) -> Experiment | None:
    """Return the experiment that made a store; None: another algorithm made it."""
    configuration = store.manifest["configuration"]
    if not all(name in configuration for name in _EXPERIMENT):
        return None
    return Experiment.from_mapping({name: configuration[name] for name in _EXPERIMENT})


def verified(facts: Mapping[str, Any]) -> str:
    """Format the result of `verify` as text."""
    lines = []
    for role, blocks in facts["corrupt"].items():
        done = (
            "remade"
            if facts["remade"]
            else "taken back: fill the store again (`informed shadow`, `store.fill()`)"
        )
        line = (
            f"{role}: corrupt blocks {blocks} {done}"
            if blocks
            else f"{role}: all blocks match their checksums"
        )
        for file in facts["metadata"][role]:
            line += f"; {file} was damaged, and is put back"
        again = facts["trained_again"][role]
        if again["models"]:
            line += (
                f"; {len(again['models'])} models trained again, {again['bits']} of"
                f" them to be equal in every bit: {len(again['differ'])} differ"
                f" (largest difference {again['largest']:.1e})"
            )
        else:
            line += "; no models trained again"
        lines.append(line)
    return "\n".join(lines)


def require_sound(facts: Mapping[str, Any]) -> None:
    """Raise WrongModelsError if a retrained model differs from the stored one."""
    for role, again in facts["trained_again"].items():
        if again["differ"]:
            raise WrongModelsError(
                f"Models {again['differ']} of the {role} store are not what their"
                f" configuration gives: trained again they differ by"
                f" {again['largest']:.1e} of their largest weight. Make the store again"
                " elsewhere and compare."
            )


def merge(
    into: Address, sources: Sequence[Address], *, progress: bool = True
) -> dict[str, Any]:
    """Copy the blocks of stores, or of runs' two stores, of one configuration.

    Args:
      into: address that blocks are copied to; created if it doesn't exist.
      sources: addresses that blocks are copied from.
    Returns: by role, the result of `merging.merge`.
    Raises: as `find` and `merging.merge`.
    """
    opened = [find(source) for source in sources]
    if not opened:
        raise ValueError(f"Expected `informed shadow merge {into} STORE ...`.")
    place = places.at(into)
    single = any(places.at(source).has(MANIFEST) for source in sources)
    counts, roles = {}, {role for stores in opened for role in stores}
    if single and len(roles) > 1:
        raise ValueError("Expected stores of one role, or folders of runs alone.")
    for role in sorted(roles):
        counts[role] = merging.merge(
            place if single else place.below(role),
            [stores[role] for stores in opened if role in stores],
            progress=progress,
        )
    stage = "stages/shadow.json"
    for source in sources:
        content = None if single else places.at(source).get(stage)
        if content is not None:
            place.put_if_absent(stage, content)
    return counts


def merged(counts_by_role: Mapping[str, Any]) -> str:
    """Format the result of `merge` as text."""
    return "\n".join(
        f"{role}: {counts['copied']} blocks copied, {counts['there']} were there,"
        f" {counts['missing']} still missing"
        for role, counts in counts_by_role.items()
    )
