"""The manifest of a shadow store: the file that says how its models were trained.

`store` makes it (`of`, `put_empty`), and `blocks` reads it before all else. It is
written last, with a checksum of itself. It holds the record (configuration, content of
the data, versions), sizes, the layout of weights, zarr's metadata, and checksums of
arrays that are not cut into blocks.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from shadow import checks, commits, data, records, training, zarr_files
from shadow.commits import BrokenSealError, CorruptBlockError
from shadow.data import Examples
from shadow.factory import Factory
from shadow.places import Place
from shadow.records import NotMadeError, Record
from shadow.victims import architectures

FORMAT = 5  # of stores; those of another format are refused
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
_POSITIONS = ("fixed_indices", "shadow_indices", "test_indices")
MAKE_AGAIN = (
    f"Delete its {MANIFEST} and make the store again with its configuration and"
    " theta_0; blocks that are committed stay."
)


def of(
    factory: Factory,
    targets: Examples,
    *,
    block_size: int,
    configuration: Mapping[str, Any],
    positions: Mapping[str, np.ndarray],
    dropped: int,
) -> tuple[Record, dict[str, Any], dict[str, np.ndarray]]:
    """Make the manifest of a new store; arguments are those of `Store.open`.

    Returns: the record, the manifest, and the arrays that are not cut into blocks.
    """
    block_size = checks.integer("block_size", block_size, 1)
    for name in positions:
        checks.choice("positions", name, _POSITIONS)
    fixed, role = factory.fixed, factory.role
    layout = factory.algorithm.layout(fixed)
    derived = {*factory.identity, "num_models", "block_size", "content"}
    if taken := derived & set(configuration):
        raise checks.FieldError(
            "configuration",
            f"Expected {{}} without {', '.join(sorted(taken))}, which stores derive.",
        )
    configuration = {**configuration, **factory.identity}
    record = Record.of(
        {
            **configuration,
            "num_models": len(targets),
            "block_size": block_size,
            "content": {
                part: {"name": examples.name, **examples.sha256}
                for part, examples in (("fixed", fixed), ("targets", targets))
            },
        },
        **revisions(configuration),
    )
    whole = {"fixed_images": fixed.images, "fixed_labels": fixed.labels, **positions}
    initialisation = factory.initialisation
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
        "num_classes": fixed.num_classes,
        "image_shape": list(fixed.image_shape),
        "block_size": block_size,
        "layout": [dataclasses.asdict(entry) for entry in layout],
        "models_per_batch": factory.width,
        "dropped": dropped,  # copies that the split left out
        "sha256": {name: checks.digest(values) for name, values in whole.items()},
    }
    manifest["arrays"] = _metadata(manifest, whole)
    return record, manifest, whole


def revisions(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the revisions of the components that decide such models."""
    return {
        "data": data.REVISION,
        **training.revisions(configuration),
        **architectures.revisions(configuration),
    }


def read(place: Place) -> dict[str, Any]:
    """Read a store's manifest.

    Raises: NotMadeError, CorruptBlockError, ValueError: see `Store`.
    """
    content = place.get(MANIFEST)
    if content is None:
        raise NotMadeError(
            f"{place} is not a shadow store: it has no {MANIFEST}.", by="shadow"
        )
    try:
        manifest = commits.unseal(content)
    except BrokenSealError as error:
        raise CorruptBlockError(
            f"The {MANIFEST} of {place} is damaged, or another version of this"
            f" package made it: {error}. {MAKE_AGAIN}",
            block=None,
        ) from error
    if manifest["format"] != FORMAT:
        raise ValueError(
            f"Expected a store of format {FORMAT} in {place}, found"
            f" {manifest['format']}, which another version of this package made. Use"
            " that version, or make the store again elsewhere."
        )
    return manifest


def _metadata(
    manifest: Mapping[str, Any], whole: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """Return zarr's metadata of a store's arrays, by name; "" is the group."""
    rows, size = manifest["num_models"], manifest["block_size"]
    specs: dict[str, dict[str, Any]] = {}
    for name, shape, dtype, fill in (
        ("weights", (manifest["num_params"],), np.float32, float("nan")),
        ("images", manifest["image_shape"], np.float32, float("nan")),
        ("labels", (), np.int32, -1),
    ):
        specs[name] = {
            "shape": (rows, *shape),
            "chunks": (size, *shape),
            "dtype": np.dtype(dtype),
            "fill_value": fill,
        }
    for name, values in whole.items():
        specs[name] = {
            "shape": values.shape,
            "chunks": (max(1, len(values)), *values.shape[1:]),
            "dtype": values.dtype,
            "fill_value": 0,
        }
    for name, about in specs.items():
        about["dimension_names"] = _DIMENSIONS[name]
    # The layout of a row of weights, by the victim's arrays.
    attributes = {name: manifest[name] for name in ("role", "num_classes", "layout")}
    return zarr_files.group_metadata(specs, attributes)


def zarr_metadata(manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files that other zarr readers need, by name."""
    return {
        zarr_files.file_of(name): json.dumps(values, indent=2, sort_keys=True).encode()
        for name, values in manifest["arrays"].items()
    }


def put_empty(
    place: Place, manifest: Mapping[str, Any], whole: Mapping[str, np.ndarray]
) -> None:
    """Make a store without blocks; it exists once its manifest does.

    If several workers do this at once, the first one's manifest stays. Files of a
    killed creator, without a manifest, are overwritten.
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
        # The manifest counts now; another creator may have written these in between.
        for name, content in contents.items():
            if place.get(name) != content:
                place.put(name, content)
