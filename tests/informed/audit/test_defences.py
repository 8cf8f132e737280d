"""What an audit tries against attacks."""

from sklearn import linear_model

import informed
from informed.audit import (
    defences,
)
from shadow import tables


def test_rounded_and_noisy_coefficients_are_held_against_the_closed_form():
    from sklearn import datasets

    def optimal(rows_, labels):
        model = linear_model.LogisticRegression(
            solver="newton-cholesky", tol=1e-10, max_iter=1000
        )
        return model.fit(rows_, labels)

    x, y = datasets.load_wine(return_X_y=True)
    table = tables.table_of(
        {**{f"c{i}": x[:, i] for i in range(x.shape[1])}, "kind": y}, label="kind"
    )
    found = informed.audit(
        optimal, table, version="1", targets=3, fixed=60, minutes=2.0,
        skip=("inversion", "membership", "two missing", "noise"),
    )  # fmt: skip
    errors = {
        row["name"]: each["mse_median"]
        for row in found.values["defences"]
        for each in row["attacks"]
        if each["name"] == "closed form"
    }
    assert errors["as it is"] < 1e-12
    assert set(errors) >= {"float16", "int8", "noise 0.001", "noise 0.1"}
    # What is attacked is really rounded, and has noise.
    assert min(error for name, error in errors.items() if name != "as it is") > 1e-9


def test_a_defence_that_an_attack_stumbles_over_ends_alone():
    def stumbles():
        yield {"name": "float16"}
        raise ValueError("first\nsecond")

    found = []
    defences._extend(found, "fewer bits", stumbles())
    assert found[0] == {"name": "float16"}
    assert found[1]["why_not"] == "an attack stopped with ValueError: first"
