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
from shadow.records import ConfigurationMismatchError, NotMadeError, Record
from shadow.victims import architectures
from shadow.zarr_files import ArraySpec

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
MAKE_AGAIN = (
    f"Delete its {MANIFEST} and make the store again with its configuration; blocks"
    " that are committed stay."
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
    checks.at_least("block_size", block_size, 1)
    fixed, role = factory.fixed, factory.role
    layout = factory.algorithm.layout(fixed)
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
        data=data.REVISION,
        **training.revisions(configuration),
        **architectures.revisions(configuration),
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
    of_a_model = {
        "weights": (manifest["num_params"],),
        "images": manifest["image_shape"],
    }
    specs = {}
    for name in PER_MODEL:
        is_label = name == "labels"
        specs[name] = ArraySpec(
            shape=(rows, *of_a_model.get(name, ())),
            dtype=np.dtype(np.int32 if is_label else np.float32),
            dimensions=_DIMENSIONS[name],
            rows_per_chunk=size,
            fill=-1 if is_label else float("nan"),
        )
    for name, values in whole.items():
        specs[name] = ArraySpec(
            shape=values.shape, dtype=values.dtype, dimensions=_DIMENSIONS[name]
        )
    # The layout of a row of weights, by the victim's arrays.
    attributes = {name: manifest[name] for name in ("role", "num_classes", "layout")}
    return zarr_files.group_metadata(specs, attributes)


def zarr_metadata(manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files that other zarr readers need, by name."""
    return {
        zarr_files.file_of(name): json.dumps(values, indent=2, sort_keys=True).encode()
        for name, values in manifest["arrays"].items()
    }


def require_made_of(
    manifest: Mapping[str, Any],
    what: str,
    *,
    identity: Mapping[str, Any],
    fixed: Examples,
    targets: Examples,
) -> None:
    """Raise unless a store's models are of this factory and these data.

    Args:
      what: names the store in messages, as a subject.
      identity: `Factory.identity`.
    Raises: ConfigurationMismatchError: names each field that differs.
    """
    kept = manifest["configuration"]
    content = {"fixed": fixed.sha256, "targets": targets.sha256}
    wanted = {
        **identity,
        "num_models": len(targets),
        "num_classes": fixed.num_classes,
        "content": content,
    }
    there = {name: kept.get(name) for name in identity}
    there |= {name: manifest[name] for name in ("num_models", "num_classes")}
    # The names of data sets don't matter.
    there["content"] = {
        part: {name: kept["content"][part].get(name) for name in sums}
        for part, sums in content.items()
    }
    differing = checks.differences(there, wanted)
    if differing:
        raise ConfigurationMismatchError(
            f"{what} was made with another configuration: {'; '.join(differing)}."
            " Open a store for these models."
        )


def block_range(manifest: Mapping[str, Any], block: int) -> tuple[int, int]:
    """Return the models of a block: the first, and one past the last."""
    size = manifest["block_size"]
    return block * size, min((block + 1) * size, manifest["num_models"])


def arrays_of_block(
    manifest: Mapping[str, Any], block: int, *values: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the arrays of a block by name, `PER_MODEL`, with the store's types.

    Raises: ValueError: one has another shape than this block's.
    """
    start, stop = block_range(manifest, block)
    arrays = {}
    for name, rows in zip(PER_MODEL, values, strict=True):
        about = manifest["arrays"][name]
        array = np.asarray(rows, about["data_type"])
        shape, actual = (stop - start, *about["shape"][1:]), array.shape
        if actual != shape:
            raise ValueError(
                f"Expected {name} of block {block} to be {shape}, got {actual}."
            )
        if not np.isfinite(array).all():
            raise ValueError(
                f"Expected {name} of block {block} without NaN or infinity."
            )
        arrays[name] = array
    return arrays


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
