"""What a redacted document leaves out."""

import json

from informed.report.document import Report
from tests.informed.report.documents import attack, document


def test_names_of_arrays_are_redacted():
    subject = document()["subject"] | {"arrays": [["Alice Smith", [10, 64]]]}
    finding = "no attack reads Alice Smith (str)"
    values = document(subject=subject, preflight={"findings": [finding]})
    shown = json.dumps(Report(values=values).redacted)
    assert "Alice" not in shown
    assert "[10, 64]" in shown
    assert "no attack reads some arrays" in shown


def test_messages_of_users_code_are_redacted():
    message = "it stopped with ValueError: could not convert 'Ely, 1 High St'"
    own = "predict raised MyFailure: 'Ely'"
    values = document(
        attack("closed form", None, why_not=message), preflight={"findings": [own]}
    )
    assert "Ely" in json.dumps(values)
    once = Report(values=values).redacted
    shown = json.dumps(once)
    assert "Ely" not in shown
    assert "ValueError" in shown
    assert "MyFailure" in shown
    # A document may have been redacted before.
    assert Report(values=once).redacted == once
