"""What pages, gates and what is redacted said on the developer's side."""

import argparse
import json

import pytest

from informed.cli import artefact as artefact_cli
from informed.cli import audit as audit_cli
from informed.cli import main
from informed.cli.gate import Gate, GateFailedError
from informed.report import dossier_sentences, words
from informed.report.report import Report

NONE = {"successes": 0, "trials": 20, "rate": 0.0, "low": 0.0, "high": 0.168}
ALL = {"successes": 6, "trials": 6, "rate": 1.0, "low": 0.54, "high": 1.0}


def attack(name, rate, **more):
    return {
        "name": name, "sees": "all weights", "knows": "all but one", "tried": True,
        "success": rate, "exact": rate, "mse_median": 0.1, "certified": None,
        "certified_wrong": None, "planned": 20, "finished": 20, "targets": 20,
        "tpr": None, "why_not": "", "applies": True, "needs_seconds": None,
    } | more  # fmt: skip


def document(*attacks, **more):
    return {
        "attacks": list(attacks),
        "gallery": {"first": 0, "attempted": 20, "why_not": ""},
        "decoder": None,
        "subject": {"targets": 20, "kind": "images"},
        "bounds": {"rows": [], "privacy": None},
        "records": [],
    } | more


def told(**more):
    """The summary of an artefact that tells nothing."""
    row = {"value": None, "determined": False}
    return {
        "features": [row, row], "contradictions": [], "unread": [], "refuted": [],
        "certified": False, "exact": False, "words": None, "named": None, "stored": [],
    } | more  # fmt: skip


def test_words_of_a_text_pass_no_gate():
    found = artefact_cli.gated(told(words=["patient", "tumour"]))
    assert found["words"] == 2
    for text in ("words > 0", "exact > 0", "determined > 0"):
        with pytest.raises(GateFailedError):
            Gate.parse(text, "artefact").require(found)
    read = artefact_cli.gated(told(words=["patient"], exact=True, certified=True))
    assert (read["exact"], read["certified"]) == (1.0, 1.0)


def test_what_an_unread_part_may_tell_is_not_known():
    found = artefact_cli.gated(told(unread=["weird_"]))
    for name in ("exact", "certified", "stored", "estimated", "determined", "words"):
        with pytest.raises(GateFailedError, match="can't be decided"):
            Gate.parse(f"{name} > 0", "artefact").require(found)
    rows = [{"value": 1.0, "determined": True}, {"value": None, "determined": False}]
    half = artefact_cli.gated(told(unread=["weird_"], features=rows))
    assert half["determined_share"] is None
    # Without doubt, nothing is nothing.
    assert artefact_cli.gated(told())["determined"] == 0


def test_two_records_that_were_read_are_said_and_gated():
    values = document(
        attack("inversion", NONE), attack("two missing", ALL, certified=6)
    )
    assert audit_cli.gated(values)["exact"] == 6
    assert audit_cli.gated(values)["certified"] == 6
    said = words._found(values)
    assert "by any attack on one" in said
    assert "two missing" in said
    assert "6 of 6" in said
    assert "two missing" in words.of_others(values)
    assert not words.of_others(document(attack("two missing", NONE)))


@pytest.mark.parametrize(("attempted", "named"), [(0, None), (3, None), (20, 0)])
def test_a_gallery_that_was_not_tried_names_nobody_and_passes_nothing(attempted, named):
    gallery = {"first": 0, "attempted": attempted}
    assert audit_cli.gated(document(gallery=gallery))["named"] == named


def test_upper_ends_are_printed_rounded_up():
    rate = NONE | {"trials": 1000, "high": 0.00368}
    assert "interval 0 to 1 %" in words.share(rate)
    assert "up to 1 %" in words._found(document(attack("inversion", rate)))


def test_the_worst_record_is_one_that_was_read():
    records = [
        {"record": 7, "best_mse": 2e-4, "without_release_mse": 1e-4},
        {"record": 3, "best_mse": 1e-3, "without_release_mse": 5e-2},
    ]
    for row in records:
        row |= {"mse": {"inversion": row["best_mse"]}, "certified": None}
        row["read"] = row["best_mse"] < row["without_release_mse"]
    first = dossier_sentences.worst(document(records=records))[0]
    assert "record 3 " in first.text


def test_messages_of_users_code_are_redacted():
    message = "it stopped with ValueError: could not convert 'Ely, 1 High St'"
    own = "predict raised MyFailure: 'Ely'"
    values = document(
        attack("artefact", None, why_not=message), preflight={"findings": [own]}
    )
    report = Report(values=values)
    assert "Ely" in json.dumps(report.values)
    shown = json.dumps(report.redacted)
    assert "Ely" not in shown
    assert "ValueError" in shown
    assert "MyFailure" in shown


def test_a_seed_is_written_as_it_was_given():
    given = argparse.Namespace(
        train="a.py:train", data="a.npz", encoder=None, label=None, fixed=None,
        data_dir=None, targets=20, minutes=0.5, threshold=0.05, seed=20240101,
        reconn=False, redact=False, skip=[], out=[], dossier=[], about=None,
        fail_if=None,
    )  # fmt: skip
    line = audit_cli._again(given)
    assert "--seed 20240101" in line
    assert "--minutes 0.5" in line


def test_a_json_of_a_run_is_no_audit(tmp_path, capsys):
    (tmp_path / "results.json").write_text(json.dumps({"attacks": {"reconn": {}}}))
    with pytest.raises(SystemExit):
        main(["compare", str(tmp_path / "results.json")])
    assert "work directory" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--record=3", "--products=tf32", "--about=a.toml"])
def test_options_of_what_is_missing_are_refused(option, capsys, tmp_path):
    (tmp_path / "a.toml").write_text("")
    line = [
        "audit",
        "a.py:train",
        "--data=digits",
        option.replace("=a", f"={tmp_path}/a"),
    ]
    with pytest.raises(SystemExit):
        main(line)
    assert "missing" in capsys.readouterr().err


def test_a_users_log_is_not_the_log_of_training(tmp_path):
    given = argparse.Namespace(out=[str(tmp_path / "new" / "train.html")])
    assert audit_cli._log_of(given) == tmp_path / "new" / "train.html.log"
    assert (tmp_path / "new").is_dir()


def test_a_file_of_bounds_that_can_not_be_run_is_one_line(tmp_path, capsys):
    (tmp_path / "mine.py").write_text("nothing_of_this_name\n")
    line = "bound --noise-multiplier=1 --steps=10 --kappa=0.1 --bounds"
    with pytest.raises(SystemExit):
        main([*line.split(), str(tmp_path / "mine.py")])
    assert "mine.py could not be run: NameError" in capsys.readouterr().err
