"""Fewer bits of the released weights, against attacks."""

from sklearn import linear_model

import informed
from shadow import tables


def test_rounded_coefficients_are_held_against_the_closed_form():
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
        skip=("inversion", "membership", "noise"),
    )  # fmt: skip
    errors = {
        row["name"]: each["mse_median"]
        for row in found.values["defences"]
        for each in row["attacks"]
        if each["name"] == "closed form"
    }
    assert errors["as it is"] < 1e-12
    assert set(errors) >= {"float16", "int8"}
    # What is attacked is really rounded.
    assert min(error for name, error in errors.items() if name != "as it is") > 1e-9
