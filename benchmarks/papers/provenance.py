"""Which code made a number."""

import subprocess
from pathlib import Path

from informed.attacks import registry
from reconn import kernel, network
from shadow import data, training
from uninformed import bilevel, max_margin
from uninformed.kkt import descent

_ROOT = Path(__file__).resolve().parents[2]


# Git writes the commit into it when it makes an archive; in a checkout it has a
# placeholder.
_ARCHIVED = Path(__file__).parent / "commit.txt"


def revisions() -> dict[str, int]:
    """The revisions of the components that measurements rest on."""
    return {
        "bilevel": bilevel.REVISION,
        "data": data.REVISION,
        "inversion": registry.find("inversion").revision,
        "kernel": kernel.REVISION,
        "kkt": descent.REVISION,
        "max_margin": max_margin.REVISION,
        "network": network.REVISION,
        "training": training.REVISION,
    }


def commit() -> str:
    """The commit that this code is at, with a plus where files differ from it.

    In an archive (`git archive`, or one of a release) there is no telling whether files
    differ: it is called one.
    """
    archived = _ARCHIVED.read_text().strip()
    if not archived.startswith("$"):
        return f"{archived[:10]} (archive)"

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(_ROOT), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    # What rows write doesn't decide what they find.
    written = (
        ":!benchmarks/papers/results",
        ":!benchmarks/papers/kept",
        ":!docs/images/papers",
        ":!docs/reproducing.md",
    )
    changed = git("status", "--porcelain", "--", ".", *written)
    return (git("rev-parse", "--short=10", "HEAD") or "unknown") + (
        "+" if changed else ""
    )
