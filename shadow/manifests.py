"""The manifest of a shadow store: what it is of, sealed, put last.

It holds the record (configuration, content of the data, versions), sizes, the layout of
theta, zarr's metadata, and the checksums of arrays that are not cut into blocks.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from shadow import checks, commits, data, records, training, zarr_files
from shadow.checks import FieldError
from shadow.commits import BrokenSealError, CorruptBlockError
from shadow.data import Examples, Split
from shadow.places import Place
from shadow.records import NotMadeError, Record
from shadow.training.algorithm import Algorithm
from shadow.victims import networks
from shadow.zarr_files import ArraySpec

FORMAT = 3
MANIFEST = "manifest.json"
PER_MODEL = ("weights", "images", "labels")
_DIMENSIONS = {
    "weights": ("models", "params"),
    "images": ("models", "height", "width", "channels"),
    "labels": ("models",),
    "fixed_images": ("fixed", "height", "width", "channels"),
    "fixed_labels": ("fixed",),
    "fixed_indices": ("fixed",),
    "shadow_indices": ("shadow_targets",),
    "test_indices": ("test_targets",),
    "initialisation": ("params",),
}
MAKE_AGAIN = (
    f"Delete its {MANIFEST} and make the store again with its configuration; blocks"
    " that are committed stay."
)


def of(
    *,
    configuration: Mapping[str, Any],
    algorithm: Algorithm,
    split: Split,
    role: str,
    block_size: int,
    initialisation: np.ndarray | None,
    models_per_batch: int | None,
) -> tuple[Record, dict[str, Any], dict[str, np.ndarray]]:
    """Of a new store; arguments are those of `ShadowStore.create`.

    Returns: the record, the manifest, and the arrays that are not cut into blocks.
    """
    checks.at_least("block_size", block_size, 1)
    targets = split.shadow if role == "shadow" else split.test
    layout = algorithm.layout(split.fixed)
    configuration = {**algorithm.configuration, **configuration}
    record = Record.of(
        {
            "role": role,
            **configuration,
            "num_models": len(targets),
            "block_size": block_size,
            "content": {
                part: {"name": examples.name, **examples.sha256}
                for part, examples in (("fixed", split.fixed), ("targets", targets))
            },
        },
        data=data.REVISION,
        **training.revisions(configuration),
        **networks.revisions(configuration),
    )
    whole = {
        "fixed_images": split.fixed.images,
        "fixed_labels": split.fixed.labels,
        "fixed_indices": split.fixed_indices,
        "shadow_indices": split.shadow_indices,
        "test_indices": split.test_indices,
    }
    if initialisation is not None:
        whole["initialisation"] = initialisation
    whole = {name: np.asarray(values) for name, values in whole.items()}
    manifest = {
        "format": FORMAT,
        "role": role,
        **record.values,
        "fingerprint": record.fingerprint(),
        "packages": records.packages(),
        "num_models": len(targets),
        "num_params": layout[-1].stop,
        "num_classes": split.fixed.num_classes,
        "image_shape": list(split.fixed.image_shape),
        "block_size": block_size,
        "layout": [dataclasses.asdict(entry) for entry in layout],
        "models_per_batch": models_per_batch,
        "dropped": split.dropped,  # copies that the division left out
        "sha256": {name: checks.digest(values) for name, values in whole.items()},
    }
    manifest["arrays"] = _metadata(manifest, whole)
    return record, manifest, whole


def read(place: Place) -> dict[str, Any]:
    """A store's manifest.

    Raises: NotMadeError, CorruptBlockError, ValueError: see `ShadowStore`.
    """
    content = place.get(MANIFEST)
    if content is None:
        raise NotMadeError(
            f"{place} is not a shadow store: it has no {MANIFEST}.", by="shadow"
        )
    try:
        manifest = commits.unseal(content)
    except BrokenSealError as error:
        old = _older_format(content)
        if old is None:
            raise CorruptBlockError(
                f"The {MANIFEST} of {place} is damaged: {error}. {MAKE_AGAIN}",
                block=None,
            ) from error
        manifest = {"format": old}
    if manifest["format"] != FORMAT:
        raise ValueError(
            f"Expected a store of format {FORMAT} in {place}, found"
            f" {manifest['format']}, which another version of this package made. Use"
            " that version, or make the store again elsewhere."
        )
    return manifest


def _older_format(content: bytes) -> int | None:
    """The format of a manifest from before manifests were sealed (1 and 2)."""
    try:
        values = json.loads(content)
    except ValueError:
        return None
    plain = isinstance(values, dict) and "seal" not in values
    return values.get("format") if plain and values.get("format") in (1, 2) else None


def _metadata(
    manifest: Mapping[str, Any], whole: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """zarr's metadata of a store's arrays, by name; "" is the group."""
    rows, size = manifest["num_models"], manifest["block_size"]
    shapes: dict[str, tuple[tuple[int, ...], str, Any]] = {
        "weights": ((rows, manifest["num_params"]), "float32", float("nan")),
        "images": ((rows, *manifest["image_shape"]), "float32", float("nan")),
        "labels": ((rows,), "int32", -1),
    }
    specs = {
        name: ArraySpec(
            shape=shape,
            dtype=np.dtype(dtype),
            dimensions=_DIMENSIONS[name],
            rows_per_chunk=size,
            fill=fill,
        )
        for name, (shape, dtype, fill) in shapes.items()
    }
    for name, values in whole.items():
        specs[name] = ArraySpec(
            shape=values.shape, dtype=values.dtype, dimensions=_DIMENSIONS[name]
        )
    return zarr_files.group_metadata(specs)


def zarr_metadata(manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Files that other zarr readers need, by name."""
    return {
        zarr_files.file_of(name): json.dumps(values, indent=2, sort_keys=True).encode()
        for name, values in manifest["arrays"].items()
    }


def require_made_of(
    manifest: Mapping[str, Any],
    what: str,
    *,
    role: str,
    layout: tuple[Any, ...] | None,
    fixed: Examples,
    targets: Examples,
) -> None:
    """Whether models of this role, victim and data belong into a store.

    Args:
      manifest: the manifest of the store.
      what: names the store in messages, within a sentence.
      role: "shadow" or "released".
      layout: the slices of theta; None: the shape of what is written tells.
      fixed, targets: the fixed set, and the targets of all models.
    Raises: FieldError: the store is of another role, of other data, or of a victim with
      other weights.
    """
    remedy = "Create a store for these models."
    wanted = {
        "role": role,
        "num_models": len(targets),
        "num_classes": fixed.num_classes,
    }
    for field, value in wanted.items():
        if value != manifest[field]:
            raise FieldError(
                field,
                f"Expected {{}} to be {manifest[field]!r}, as of {what}, got"
                f" {value!r}. {remedy}",
            )
    entries = [dataclasses.asdict(entry) for entry in layout or ()]
    if layout and json.loads(json.dumps(entries)) != manifest["layout"]:
        raise FieldError(
            "victim",
            f"Expected {{}} to have the weights that {what} was created for, got other"
            f" ones. {remedy}",
        )
    content = manifest["configuration"]["content"]
    for field, examples in (("fixed", fixed), ("targets", targets)):
        for name, value in examples.sha256.items():
            if content[field][name] != value:
                raise FieldError(
                    field,
                    f"Expected {{}} to be those that {what} was created for; their"
                    f" {name} is another. {remedy}",
                )


def block_range(manifest: Mapping[str, Any], block: int) -> tuple[int, int]:
    """The models of a block: first, and one past the last."""
    size = manifest["block_size"]
    return block * size, min((block + 1) * size, manifest["num_models"])


def arrays_of_block(
    manifest: Mapping[str, Any], block: int, *values: np.ndarray
) -> dict[str, np.ndarray]:
    """The arrays of a block by name, `PER_MODEL`, with the store's types.

    Raises: ValueError: one has another shape than this block's.
    """
    start, stop = block_range(manifest, block)
    arrays = {}
    for name, each in zip(PER_MODEL, values, strict=True):
        about = manifest["arrays"][name]
        array = np.asarray(each, about["data_type"])
        shape, found = (stop - start, *about["shape"][1:]), array.shape
        if found != shape:
            raise ValueError(
                f"Expected {name} of block {block} to be {shape}, got {found}."
            )
        arrays[name] = array
    return arrays


def put_empty(
    place: Place, manifest: Mapping[str, Any], whole: Mapping[str, np.ndarray]
) -> None:
    """Make a store without blocks; it is one when its manifest is there.

    Of several workers who do this at once the first one's manifest stays. What a
    creator that was killed has left, with no manifest, is written over.
    """
    contents = zarr_metadata(manifest)
    for name, values in whole.items():
        if len(values):
            about = manifest["arrays"][name]
            file = zarr_files.chunk_of(name, about)
            contents[file] = zarr_files.encode(about, values)
    for name, content in contents.items():
        same = place.put_if_absent(name, content) or place.get(name) == content
        if not same and place.get(MANIFEST) is None:
            place.put(name, content)
    sealed = commits.seal(manifest)
    if place.put_if_absent(MANIFEST, sealed) or place.get(MANIFEST) == sealed:
        # It counts from now on; another creator may have been at these in between.
        for name, content in contents.items():
            if place.get(name) != content:
                place.put(name, content)
