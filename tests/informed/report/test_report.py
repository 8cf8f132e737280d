"""The page of a run's folder, and its contrast."""

import json
import re
from importlib import resources

import jsonschema
import pytest

from informed.audit import schema
from informed.cli import main
from informed.report import figures
from tests.informed.command_line import SMALL, run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "digits"
    main(["run", *SMALL, f"--workdir={folder}", "--quiet"])
    return folder


def test_any_run_has_a_page(finished, capsys):
    output = run(capsys, "report", str(finished))
    html = (finished / "report.html").read_text()
    assert str(finished / "report.html") in output
    for part in ("inversion", "reconn", "Which records"):
        assert part in html
    values = json.loads(run(capsys, "report", str(finished), "--json"))
    jsonschema.validate(values, schema())
    rows = {row["name"]: row for row in values["attacks"]}
    results = json.loads((finished / "results.json").read_text())
    of_reconn = results["attacks"]["reconn"]["mse"]
    assert rows["reconn"]["mse_mean"] == pytest.approx(of_reconn, rel=0.05)
    assert (
        rows["inversion"]["certified"] == results["attacks"]["inversion"]["certified"]
    )
    nearest = next(b for b in values["baselines"] if b["name"].startswith("nearest"))
    assert nearest["mse_mean"] == pytest.approx(results["nn_oracle_mse"])
    line = ("report", str(finished), "--redact", f"--out={finished}/r.html", "--json")
    redacted = json.loads(run(capsys, *line))
    assert "data:image" not in (finished / "r.html").read_text()
    assert "label" not in redacted["records"][0]


def test_a_folder_without_a_run_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["report", str(tmp_path)])
    assert stopped.value.code == 2
    assert "Make it, or finish it, with `informed run`" in capsys.readouterr().err
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(SystemExit):
        main(["report", str(tmp_path)])
    assert "is of another command" in capsys.readouterr().err


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.1."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_what_the_guidelines_ask():
    """WCAG 2.1: 4.5 for text, 3 for graphics, in light and dark."""
    text = resources.files("informed.report").joinpath("templates/page.html.j2")
    themes = re.findall(r":root \{([^}]*)\}", text.read_text())
    assert len(themes) == 2
    for theme in themes:
        colours = dict(re.findall(r"--(\w+): (#\w{6})", theme))
        for front, back in (
            ("ink", "ground"),
            ("ink", "box"),
            ("soft", "ground"),
            ("mark", "markbox"),
        ):
            assert contrast(colours[front], colours[back]) >= 4.5, (front, back)
        for colour in figures.COLOURS:
            assert contrast(colour, colours["ground"]) >= 3, colour
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
