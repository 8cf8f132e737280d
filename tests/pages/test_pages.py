"""Pages as a browser shows them: the page of an audit, and pages of the site.

At 1,200 and 390 pixels, light and dark: nothing scrolls sideways but boxes of their
own, code isn't cut in a wide window, texts of a figure don't overlap, and axe-core (the
file beside this one, version 4.12.1, licence MPL-2.0) finds no violation.

DOCS_HTML names the folder of a built site, every page of which is looked at instead of
the pages that are rendered here without their tutorials (`.ci/run` does so).
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import informed
from informed.report import figures
from tests.informed.audit.audited_trainings import SOURCE
from tests.pages import browser

ROOT = Path(__file__).parents[2]
AXE = (Path(__file__).parent / "axe.min.js").read_text()
PAGES = ("index", "audit", "results", "commands", "pitfalls")
UNREAD = "_build,_extensions,_static,reference,tutorials"
WIDTHS = (1200, 390)
PARTS = 2  # of the site, for processes of their own: `--dist=load`
pytestmark = pytest.mark.skipif(
    browser.find() is None, reason="no Chromium: apt-get install chromium"
)

# In dark only the colours of a page are others.
VIOLATIONS = """axe.run(document, {resultTypes: ["violations"],
  ...(matchMedia("(prefers-color-scheme: dark)").matches &&
    {runOnly: ["color-contrast"]})
}).then(
  found => found.violations.map(v => v.id + ": " + v.help + "; " +
    v.nodes.slice(0, 3).map(n => n.target.join(" ")).join(", ")))"""
CUT = """[...document.querySelectorAll("pre")]
  .filter(box => box.scrollWidth > box.clientWidth + 1)
  .map(box => box.textContent.slice(0, 80))"""
# Pairs of texts in one figure whose boxes share more than a pixel in both directions.
OVERLAPS = """[...document.querySelectorAll("figure svg")].flatMap(figure => {
  const texts = [...figure.querySelectorAll("text")]
    .map(text => [text.textContent, text.getBoundingClientRect()])
    .filter(([text, box]) => text.trim() && box.width);
  return texts.flatMap(([one, a], i) => texts.slice(i + 1)
    .filter(([, b]) =>
      Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
      Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
    .map(([other]) => one + " | " + other));
})"""


@pytest.fixture(scope="module")
def chromium():
    path = browser.find()
    assert path is not None
    with browser.started(path) as tab:
        yield tab


@pytest.fixture(scope="module")
def audit(tmp_path_factory, digits):
    """The page of an audit of digits, with pictures and tables."""
    folder = tmp_path_factory.mktemp("audit")
    (folder / "linear_for_pages.py").write_text(SOURCE)
    found = informed.audit(
        f"{folder / 'linear_for_pages.py'}:train",
        digits.take(np.arange(120)),
        targets=12,
        fixed=20,
        minutes=0.3,
        skip=("inversion",),
    )
    found.save(str(folder / "audit.html"))
    return folder / "audit.html"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Folder of the site: the one that was built, or a few pages made now."""
    if built := os.environ.get("DOCS_HTML"):
        return Path(built)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html"]
    settings = ["nb_execution_mode=off", f"exclude_patterns={UNREAD}"]
    settings.append("suppress_warnings=toc.excluded,toc.not_readable,myst.xref_missing")
    options = [word for setting in settings for word in ("-D", setting)]
    subprocess.run([*command, *options, ROOT / "docs", folder], check=True)
    return folder


def faults(tab, file, *, axe=WIDTHS):
    """What is wrong with a page, a line each.

    Args:
      axe: widths in pixels at which axe-core looks at it; it takes the most time.
    """
    found = []
    for width in WIDTHS:
        tab.open(file, width=width)
        where = f"{file.name}, {width} px, "
        wide = tab.run("document.scrollingElement.scrollWidth - innerWidth")
        if wide > 0:
            found.append(f"{where}{wide} px too wide")
        if width == max(WIDTHS):
            found += [f"{where}cut: {text}" for text in tab.run(CUT)]
        found += [f"{where}overlap: {text}" for text in tab.run(OVERLAPS)]
        if width not in axe:
            continue
        tab.run(f"{AXE};0")
        found += [f"{where}light: {violation}" for violation in tab.run(VIOLATIONS)]
        tab.colours(dark=True)
        found += [f"{where}dark: {violation}" for violation in tab.run(VIOLATIONS)]
    return found


def test_the_page_of_an_audit(chromium, audit):
    assert "What was read out" in audit.read_text()
    assert faults(chromium, audit) == []


@pytest.mark.parametrize("part", range(PARTS))
def test_pages_of_the_site(part, chromium, site):
    # What stands beside every page of the site is seen at both widths by these.
    chosen = [site / f"{name}.html" for name in PAGES]
    pages = {page: WIDTHS for page in chosen}
    if "DOCS_HTML" in os.environ:
        made = sorted(site.rglob("*.html"))
        pages |= {
            page: () if page.parent.name == "reference" else WIDTHS[-1:]
            for page in made
            if page not in chosen and not {"_modules", "_static"} & set(page.parts)
        }
        # The reference is made from docstrings, half of all markup; axe-core sees one.
        pages[site / "reference" / "reconn.html"] = WIDTHS[-1:]
        assert len(pages) > 25
    some = list(pages.items())[part::PARTS]
    assert [fault for p, axe in some for fault in faults(chromium, p, axe=axe)] == []


def rate(share):
    return {"rate": share, "low": share / 2, "high": (1 + share) / 2}


def test_ticks_of_a_figure_do_not_overlap(chromium, tmp_path):
    """Noise multipliers that lie close."""
    sigmas = (0.5, 0.6, 0.7, 0.75, 0.8, 1.0, 1.1, 5.0, 300.0)
    rows = [
        {"noise_multiplier": s, "success": rate(0.4), "bound": 0.9, "accuracy": 0.7}
        for s in sigmas
    ]
    bound = figures.bound({"rows": rows, "kappa": 0.25, "candidates": 4})
    (tmp_path / "figures.html").write_text(
        f'<!doctype html><html lang="en"><title>Figures</title><main>'
        f"<h1>Figures</h1><figure>{bound}</figure></main>"
    )
    assert faults(chromium, tmp_path / "figures.html") == []


def test_faults_are_found(chromium, tmp_path):
    """The controls: a page that is wrong in each way that is looked for."""
    text = '<text x="5" y="20">one</text><text x="9" y="22">two</text>'
    (tmp_path / "wrong.html").write_text(
        f'<!doctype html><html><body style="width: 2000px; color: #999">grey'
        f'<pre style="width: 50px; overflow: auto">{"long " * 40}</pre>'
        f"<figure><svg>{text}</svg></figure></body></html>"
    )
    found = " ".join(faults(chromium, tmp_path / "wrong.html"))
    for word in ("px too wide", "cut: long", "one | two", "color-contrast", "html-has"):
        assert word in found
