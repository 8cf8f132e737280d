"""Files that are either whole or absent: write beside, then rename."""

import json
import os
import uuid
from pathlib import Path
from typing import Any


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` by `content` in one step; a crash leaves the old file or the new.

    The content reaches the disk before the name does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON with sorted keys, in one step."""
    text = json.dumps(value, indent=2, sort_keys=True, allow_nan=False)
    write_bytes(path, (text + "\n").encode())
