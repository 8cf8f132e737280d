"""The dossier: valid, traced to fields, the same twice, and without promises."""

import copy
import hashlib
import html
import json
import re

import jsonschema
import numpy as np
import pytest

import informed
from informed.cli import main
from informed.report import dossier
from informed.report.about import TEMPLATE, About
from informed.report.dossier import Dossier

# What no measurement shows.
PROMISES = re.compile(
    r"anonym|\bsafe|complian|harmless|no risk|impossible|cannot be extracted", re.I
)
RATE = {"successes": 0, "trials": 20, "rate": 0.0, "low": 0.0, "high": 0.168}


@pytest.fixture(scope="module")
def audit(digits):
    """Of a training whose mean tells the missing record exactly."""

    def train(images, labels):
        return images.reshape(len(images), -1).mean(axis=0)

    found = informed.audit(
        train,
        digits,
        version="1",
        fixed=60,
        targets=2,
        minutes=1.0,
        skip=("two missing", "noise", "defences"),
    )
    return json.loads(found.json)


def withstood(audit):
    """The same, had every attack found nothing and one not been begun."""
    values = copy.deepcopy(audit)
    for row in values["attacks"]:
        if row["tried"]:
            row |= {"success": RATE, "exact": RATE, "certified": None, "targets": 20}
            row |= {"planned": 20, "finished": 20, "certified_wrong": None}
    values["attacks"][0] |= {
        "tried": False, "success": None, "exact": None, "finished": None,
        "needs_seconds": 540.0, "needs_minutes": 120, "why_not": "no time",
    }  # fmt: skip
    for row in values["records"]:
        row |= {"best_mse": 0.1, "certified": None}
    values["gallery"] |= {"first": 0, "certified": 0}
    return values


def private(audit, **changed):
    """The same, with noise that training declares."""
    values = withstood(audit)
    row = {
        "noise_multiplier": 4.0, "epsilon": 8.0, "success": RATE, "bound": 0.4,
        "violation": 0.9, "accuracy": 0.8,
    }  # fmt: skip
    values["bounds"] = {
        "rows": [row | changed], "why_not": "", "relation": "replace_one",
        "kappa": 0.125, "candidates": 8, "delta": 1e-5, "threshold": 0.5,
        "privacy": {"noise_multiplier": 4.0, "steps": 40.0}, "calibrated": None,
    }  # fmt: skip
    return values


def named(audit):
    """The same, with records that training with a gallery named."""
    values = withstood(audit)
    values["gallery"] = {
        "size": 4000, "attempted": 17, "first": 16, "certified": 15, "tried": 4,
        "certified_wrong": 2, "seconds": 3.0, "why_not": "",
        "knows": "all records but one",
    }  # fmt: skip
    return values


def exists(values, field):
    """Whether a document has a field such as attacks[kernel].success."""
    found = [values]
    for part in field.split("."):
        name, bracket, which = part.rstrip("]").partition("[")
        found = [each[name] for each in found if each is not None]
        if bracket:
            rows = [row for each in found for row in each]
            key = "record" if name == "records" else "name"
            found = [row for row in rows if which in ("", str(row.get(key)))]
            assert found or not rows, field
    return True


SENTENCES = (
    "adversary", "findings", "combined", "worst", "residual", "limits", "again",
)  # fmt: skip


@pytest.mark.parametrize("change", [copy.deepcopy, withstood, private, named])
def test_every_sentence_is_traced_and_promises_nothing(audit, change):
    values = change(audit)
    made = Dossier.of(values)
    jsonschema.validate(made.values, dossier.schema())
    said = [each for part in SENTENCES for each in made.values[part]]
    assert len(said) > 10
    for each in said:
        assert not PROMISES.search(each["text"]), each["text"]
        assert all(exists(values, field) for field in each["fields"])
        # A number that isn't in general advice is that of a field.
        if re.search(r"\d", each["text"]) and each not in made.values["limits"]:
            assert each["fields"], each["text"]
    page = made.html()
    assert not PROMISES.search(page)
    assert "<script" not in page
    assert "http" not in page
    for each in said:
        plain = each["text"].partition("`")[0].partition("%")[0].strip()
        assert plain in html.unescape(page)


def test_records_that_are_read_come_first(audit):
    found = Dossier.of(audit).values
    assert "read out of this release exactly" in found["residual"][0]["text"]
    assert found["measured"]["exact"]["successes"] == 2
    assert "There is no guarantee" in found["residual"][-1]["text"]
    assert found["declared"] is None


def test_what_was_not_begun_comes_first_where_nothing_was_read(audit):
    found = Dossier.of(withstood(audit)).values
    first, second, *_ = [each["text"] for each in found["residual"]]
    assert first.startswith("Not tried, or not to the end: inversion")
    assert "Up to 17 % of such records may still be" in second
    row = next(row for row in found["not_run"] if row["name"] == "inversion")
    assert row["takes"] == "about 9 minutes a record (`--minutes 120`)"
    assert row["applies"]


def test_records_that_a_gallery_names_come_first_too(audit):
    found = Dossier.of(named(audit)).values
    texts = [each["text"] for each in found["residual"]]
    assert "for 16 of 17, 13 by the same weights to the last bit (2 more" in texts[0]
    assert texts[2].startswith("Not tried, or not to the end: inversion")
    assert any("16 of 17" in each["text"] for each in found["combined"])


def test_who_tells_whether_a_record_was_trained_on_is_said(audit):
    values = withstood(audit)
    certain = {"rate": 1.0, "low": 0.69, "high": 1.0, "successes": 10, "trials": 10}
    values["membership"][0]["rate"] = certain
    found = Dossier.of(values).values
    said = "trained on from a public one for 10 of 10 (100 %"
    for part in ("residual", "findings"):
        assert any(said in each["text"] for each in found[part]), part
    values["membership"][0]["rate"] = certain | {"rate": 0.6, "low": 0.3}
    found = Dossier.of(values).values
    assert not any("public one for" in each["text"] for each in found["residual"])
    assert any("public one for" in each["text"] for each in found["findings"])
    scores = {"auc": 0.99, "epsilon": 2.5, "why_not": ""}
    values["membership"][1] |= scores
    texts = [each["text"] for each in Dossier.of(values).values["residual"]]
    assert any("curve of 0.99" in text and "at least 2.5" in text for text in texts)
    values["membership"][1] |= scores | {"epsilon": 0.0}
    texts = [each["text"] for each in Dossier.of(values).values["residual"]]
    assert not any("curve of" in text for text in texts)


def test_pictures_that_were_not_decoded_are_said_to_be_not_run(audit):
    decoder = {"why_not": "not fitted in 3 s", "rows": []}
    left = Dossier.of({**audit, "decoder": decoder}).values["not_run"]
    assert [row["why"] for row in left if "decoding" in row["name"]] == [
        "not fitted in 3 s"
    ]
    done = Dossier.of({**audit, "decoder": {"why_not": "", "rows": []}}).values
    assert not [row for row in done["not_run"] if "decoding" in row["name"]]


def test_what_is_left_out_is_said_to_be_not_run(audit):
    left = Dossier.of(audit).values["not_run"]
    why = {row["name"]: row["why"] for row in left}
    assert "left out by whoever ran the audit" in why["two missing"]
    values = copy.deepcopy(audit)
    values["membership"] = []
    found = Dossier.of(values).values
    assert "membership" in [row["name"] for row in found["not_run"]]
    assert any("membership" in each["text"] for each in found["residual"])


def test_a_version_that_the_owner_states_is_no_hash(audit):
    release = Dossier.of(audit).values["release"]
    assert release["training_sha256"] is None
    assert release["training_version"] == "1"


@pytest.mark.parametrize(
    ("changed", "said", "left"),
    [
        ({}, "more often than 40 %", "only as far as training adds"),
        ({"bound": 1.0}, "which bounds nothing", "too little for one"),
        ({"violation": 1e-6}, "no bound holds", "doesn't add the noise"),
        ({"noise_multiplier": 5.0}, "not held against an attack", "not looked at"),
    ],
)
def test_measured_and_declared_together(audit, changed, said, left):
    found = Dossier.of(private(audit, **changed)).values
    assert any(said in each["text"] for each in found["combined"])
    assert left in found["residual"][-1]["text"]


def test_no_label_and_no_guess_is_in_it(audit):
    values = copy.deepcopy(audit)
    for row in values["records"]:
        row["label"] = 777777
    text = Dossier.of(values).json
    assert "777777" not in text
    assert Dossier.of(values).json == text


def test_what_the_owner_states_is_escaped_and_hashed(audit, tmp_path):
    (tmp_path / "weights.npz").write_bytes(b"weights")
    (tmp_path / "about.toml").write_text(
        TEMPLATE.replace('name = ""', 'name = "<b>Reader</b>"', 1).replace(
            "files = []", 'files = ["weights.npz"]'
        )
    )
    made = Dossier.of(audit, About.read(tmp_path / "about.toml"))
    jsonschema.validate(made.values, dossier.schema())
    (file,) = made.values["release"]["files"]
    assert file["sha256"] == hashlib.sha256(b"weights").hexdigest()
    assert "&lt;b&gt;Reader" in made.html()
    assert "<em>not stated</em>" in made.html()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[system]\nnme = 'x'", "Did you mean 'name'"),
        ("[system]\nname = 3", "name"),
        ("[system", "is no TOML"),
        ("folder = '/'", "no field 'folder'"),
        ("[release]\nfiles = ['none.npz']", "none.npz, which is no file"),
    ],
)
def test_what_is_wrong_in_the_statement_is_named(audit, tmp_path, text, said, capsys):
    (tmp_path / "about.toml").write_text(text)
    (tmp_path / "audit.json").write_text(json.dumps(audit))
    with pytest.raises(SystemExit) as stopped:
        main(
            [
                "dossier",
                str(tmp_path / "audit.json"),
                f"--about={tmp_path / 'about.toml'}",
            ]
        )
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line


def test_the_command_line(audit, tmp_path, capsys):
    (tmp_path / "audit.json").write_text(json.dumps(audit))
    about = tmp_path / "about.toml"
    main(["dossier", "init", str(about)])
    assert About.read(about) == About(folder=str(tmp_path))
    with pytest.raises(SystemExit):
        main(["dossier", "init", str(about)])
    assert "is not overwritten" in capsys.readouterr().err
    out = tmp_path / "dossier.html"
    arguments = ["dossier", str(tmp_path / "audit.json"), f"--about={about}"]
    main([*arguments, f"--out={out}", "--json"])
    assert json.loads(capsys.readouterr().out) == Dossier.of(audit).values
    assert out.read_text() == Dossier.of(audit).html()
    with pytest.raises(SystemExit):
        main([*arguments, "--out=dossier.pdf"])
    assert "to end in .html or .json" in capsys.readouterr().err
    # A run's document is another thing.
    (tmp_path / "audit.json").write_text(json.dumps(audit | {"kind": "run"}))
    with pytest.raises(SystemExit):
        main(arguments)
    assert "of the kind 'run'" in capsys.readouterr().err


def test_an_audit_writes_its_dossier(tmp_path, digits):
    (tmp_path / "mean.py").write_text(
        "def train(images, labels):\n    return images.mean(axis=0)\n"
    )
    np.savez(
        tmp_path / "digits.npz", images=digits.images[:90], labels=digits.labels[:90]
    )
    line = [
        "audit", f"{tmp_path}/mean.py:train", f"--data={tmp_path}/digits.npz",
        "--fixed=40", "--targets=2", "--minutes=2", "--quiet",
        *(f"--skip={part}" for part in ("two missing", "membership", "noise")),
        "--skip=defences", f"--out={tmp_path}/a.json",
    ]  # fmt: skip
    main([*line, f"--dossier={tmp_path}/d.json"])
    made = json.loads((tmp_path / "d.json").read_text())
    audited = json.loads((tmp_path / "a.json").read_text())
    assert made == Dossier.of(audited).values
    with pytest.raises(SystemExit):
        main([*line, f"--dossier={tmp_path}/d.json", "--check"])
