"""A whole audit at a small size: the document, the page, the command line."""

import copy
import json
import re

import jax
import jax.numpy as jnp
import jsonschema
import numpy as np
import pytest
from sklearn import linear_model

import informed
from informed.audit import Report, contract, schema, subject
from informed.audit.auditing import AuditConfig
from informed.cli import main
from informed.report import html_page, words
from shadow import checks, files
from tests.informed.audit.audited_trainings import SOURCE, linear

PREDICTS = (
    SOURCE
    + """
def predict(released, images):
    return images.reshape(len(images), -1) @ released["w"]
"""
)


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    file = tmp_path_factory.mktemp("audit") / "linear_of_test.py"
    file.write_text(PREDICTS)
    return f"{file}:train"


@pytest.fixture(scope="module")
def audit(code, digits):
    few = digits.take(np.arange(300))
    return informed.audit(code, few, targets=6, fixed=20, minutes=20.0)


def test_a_linear_model_gives_its_record_away(audit):
    rows = {row["name"]: row for row in audit.values["attacks"]}
    inversion = rows["inversion"]
    assert inversion["exact"]["successes"] >= 5
    assert inversion["certified"] >= 5
    assert inversion["certified_wrong"] == 0
    assert rows["kernel"]["success"]["rate"] > 0.5
    assert not rows["closed form"]["tried"]
    assert rows["closed form"]["why_not"]
    assert words.verdict(audit.values).startswith("Records can be read out of this")
    remedy, *_, last = words.first_lines(audit.values)
    assert remedy.startswith("To limit it, train with DP-SGD")
    assert last.startswith("No bound applies")


def test_the_document_is_strict_json_with_a_schema(audit, tmp_path):
    text = audit.save(tmp_path / "audit.json").read_text()
    values = json.loads(text, parse_constant=pytest.fail)
    jsonschema.validate(values, schema())
    assert values["subject"]["accuracy"] is not None
    for wrong in ({"records": None}, {"schema": 1}, {"surplus": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**values, **wrong}, schema())
    assert files.finite({"a": np.nan, "b": [np.float32(1), np.inf]}) == {
        "a": None,
        "b": [1.0, None],
    }


def test_the_page_stands_alone(audit):
    html = audit.html()
    assert len(html.encode()) < html_page.MOST_BYTES
    assert "<script" not in html
    assert not re.search(r"(src|href)=\"(?!data:|#)", html)
    assert "@import" not in html
    assert "prefers-color-scheme: dark" in html
    assert "This page holds training data" in html
    pictures = re.findall(r"<img [^>]*>", html)
    assert pictures
    assert all(re.search(r'alt="[^"]+"', picture) for picture in pictures)
    assert all('aria-label="' in svg for svg in re.findall(r"<svg [^>]*>", html))
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert html in audit._repr_html_().replace("&lt;", "<").replace(
        "&gt;", ">"
    ).replace("&quot;", '"').replace("&#x27;", "'").replace("&amp;", "&")


def test_redacted_there_is_no_record(audit, tmp_path):
    html = audit.html(redact=True)
    assert "data:image" not in html
    assert "Redacted: this page has no record" in html
    assert '<th scope="col" class="n">class</th>' not in html
    values = json.loads(audit.save(tmp_path / "a.json", redact=True).read_text())
    jsonschema.validate(values, schema())
    assert "label" not in values["records"][0]
    with pytest.raises(ValueError, match=r"\.html or \.json"):
        audit.save(tmp_path / "a.pdf")


def test_text_of_the_user_is_escaped(audit):
    values = copy.deepcopy(dict(audit.values))
    values["subject"]["train"] = "<script>alert(1)</script>"
    html = Report(values=values).html()
    assert "<script>" not in html


def test_nothing_found_is_called_no_protection(audit):
    values = copy.deepcopy(dict(audit.values))
    for row in values["attacks"]:
        if row["tried"]:
            trials = row["success"]["trials"]
            none = {"successes": 0, "trials": trials, "rate": 0.0}
            none |= {"low": 0.0, "high": 0.4}
            row |= {"success": none, "exact": none, "certified": None}
    first, last = words.first_lines(values)
    assert words.verdict(values).endswith("That is no protection.")
    assert "40 %" in first
    assert not re.search(r"\b(safe|secure|protected)\b", f"{first} {last}")


def of_noise(sigma, successes, bound, violation):
    rate = {"successes": successes, "trials": 80, "rate": successes / 80}
    return {
        "noise_multiplier": sigma,
        "epsilon": 1.0,
        "success": {**rate, "low": 0.0, "high": 1.0},
        "bound": bound,
        "violation": violation,
        "accuracy": None,
    }


def test_the_noise_that_is_declared_is_named_and_a_broken_bound_too(audit):
    values = copy.deepcopy(dict(audit.values))
    bounds = {"threshold": 0.5, "candidates": 4, "delta": 1e-5, "calibrated": None}
    bounds |= {"privacy": {"noise_multiplier": 4.0}, "why_not": "", "kappa": 0.25}
    more = of_noise(10.0, 24, 0.5, 1.0)
    values["bounds"] = {**bounds, "rows": [of_noise(4.0, 60, 0.9, 0.7), more]}
    second = words.first_lines(values)[1]
    assert "With noise multiplier 4 " in second
    assert "90 %" in second
    values["bounds"] = {**bounds, "rows": [of_noise(4.0, 60, 1.0, 1.0), more]}
    assert "multiplier 4, bounds nothing" in words.first_lines(values)[1]
    values["bounds"] = {**bounds, "rows": [of_noise(4.0, 80, 0.6, 1e-9), more]}
    assert "no bound holds" in words.first_lines(values)[1]
    assert "no bound below holds" in Report(values=values).html()


def test_noise_that_nobody_names_is_refused():
    kept = {"steps": 5, "noise_multiplier": 2.0}
    assert contract.declared(kept, given=False, default=None) == 2.0
    assert contract.declared({"steps": 5}, given=True, default=3.0) == 3.0
    with pytest.raises(checks.FieldError, match="lacks noise_multiplier"):
        contract.declared({"steps": 5}, given=False, default=None)


def test_words_of_columns_are_redacted(audit):
    values = copy.deepcopy(dict(audit.values))
    values["subject"]["columns"] = ["age", "town=Ely", "town=Bath"]
    redacted = Report(values=values).redacted
    assert redacted["subject"]["columns"] == ["age", "town"]
    jsonschema.validate(redacted, schema())


def test_scores_have_a_column_for_every_label():
    estimator = linear_model.LogisticRegression().fit([[0.0], [1.0]], [1, 3])
    scores = estimator.predict_proba([[0.2]])
    whole = subject.by_label(scores, estimator, 5, 0.0)
    np.testing.assert_allclose(whole, [[0, scores[0, 0], 0, scores[0, 1], 0]])
    assert subject.by_label(scores, estimator, None, 0.0) is scores


def test_the_check_alone(code, capsys):
    line = f"audit {code} --data digits --fixed=20 --targets=2 --check --json"
    main(line.split())
    found = json.loads(capsys.readouterr().out)
    assert found["engine"] == "jax"
    assert {row["name"] for row in found["attacks"]} >= {"inversion", "kernel"}


def test_what_has_to_be_mended_first_has_an_exit_code(tmp_path, capsys):
    file = tmp_path / "nan_of_test.py"
    file.write_text(
        "def train(images, labels, seed: int):\n    return [float('nan')]\n"
    )
    arguments = ["audit", f"{file}:train", "--data=digits", "--fixed=20", "--targets=2"]
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 3
    (error,) = capsys.readouterr().err.splitlines()
    assert "NaN" in error


def test_help_is_one_screen_and_shows_an_example(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 48
    stages = ("shadow", "attack", "evaluate")
    for name in ("audit", "report", "bound", "run", *stages):
        assert any(line.split()[:1] == [name] for line in lines)
        with pytest.raises(SystemExit):
            main([name, "--help"])
        assert f"informed {name} " in capsys.readouterr().out.split("Example:")[1]


def test_a_part_that_there_is_not_is_refused(code):
    with pytest.raises(checks.FieldError, match="threshold"):
        AuditConfig(threshold=0.2)
    with pytest.raises(ValueError, match=r"audit.skip.*Did you mean 'noise'"):
        informed.audit(code, "digits", skip=("noises",))


def test_a_secret_seed_is_told_to_nobody(digits):
    def train(images, labels, key):
        return jax.random.normal(key, (3,)) + 0 * jnp.sum(images)

    found = subject.prepare(contract.load_training(train), digits, targets=2)
    open_ = found.factory("released"), found.factory("shadow")
    assert open_[0].public_key is not None
    assert found.factory("released", secret=True).public_key is None


@pytest.mark.parametrize("digits_kept", ["float16", 4])
def test_weights_that_training_rounds_are_read_all_the_same(digits_kept):
    """Their rounding can't be measured by training again: it is seen in the release."""

    def train(images, labels, key):
        w = linear(images, labels, key)
        return w.astype(jnp.float16) if digits_kept == "float16" else jnp.round(w, 4)

    few = {"targets": 3, "fixed": 60, "minutes": 3}
    found = informed.audit(train, "digits", version=str(digits_kept), **few)
    row = next(row for row in found.values["attacks"] if row["name"] == "inversion")
    assert (row["why_not"], row["finished"], row["certified_wrong"]) == ("", 3, 0)
    assert row["mse_median"] < 1e-6
