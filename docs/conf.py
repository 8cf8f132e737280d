"""Sphinx: `make docs`."""

import os
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_extensions")]
os.environ["PYTHONPATH"] = str(HERE.parent)  # for the processes that run tutorials
os.environ.setdefault("OMP_NUM_THREADS", "1")  # matrices here are small
os.environ.setdefault("JAX_PLATFORMS", "cpu")

project = "informed-adversary"
author = "informed-adversary developers"
copyright = f"the {author}"
release = metadata.version("informed-adversary")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "accessible",
    "plain_docstrings",
]
exclude_patterns = ["_build", "_extensions", "_static"]
html_theme = "furo"
html_title = "informed-adversary"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["scrollable.js"]
html_show_sphinx = False

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

# Tutorials are executed whenever their page is read, never taken from a cache: a cache
# knows the text of a page, not the code of this package, and would show old numbers.
nb_execution_mode = "force"
nb_execution_in_temp = True  # what they write is gone afterwards
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 60

# Pages link to folders of the checkout; the site has a section of each.
_FOLDERS = {
    "../configs": "commands.md#configurations-of-the-package",
    "../examples": "extending.md#the-files",
}


def _folders_to_pages(app: Any, page: str, text: list[str]) -> None:
    for folder, target in _FOLDERS.items():
        text[0] = re.sub(rf"\]\({re.escape(folder)}/?\)", f"]({target})", text[0])


def _check_register(app: Any) -> None:
    """The page of the papers has no gap, and is the one that the register gives."""
    from benchmarks.papers import page

    page.check()


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("builder-inited", _check_register)
    app.connect("source-read", _folders_to_pages)
