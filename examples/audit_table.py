"""Audit a logistic regression on a table with named columns (breast cancer).

    python examples/audit_table.py

The same for your own table; `--label` names the column of labels:

    informed audit examples/audit_table.py:train --data mine.csv \
        --label diagnosis --fixed 200 --targets 20 --out audit.html
"""

from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import informed
from shadow import tables


def train(rows, labels):
    """Rows are as in the table, to seven digits; no key, as nothing is drawn."""
    model = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000)
    return make_pipeline(StandardScaler(), model).fit(rows, labels)


def breast_cancer():
    """scikit-learn's 569 rows as a table; from a file: "mine.csv"."""
    bunch = datasets.load_breast_cancer()
    columns = dict(zip(bunch.feature_names.tolist(), bunch.data.T, strict=True))
    names = [str(bunch.target_names[label]) for label in bunch.target]
    return tables.table_of({**columns, "diagnosis": names}, label="diagnosis",
                           name="breast cancer")  # fmt: skip


def main(minutes=10.0, targets=20):
    return informed.audit(train, breast_cancer(), fixed=200, targets=targets,
                          minutes=minutes)  # fmt: skip


if __name__ == "__main__":
    audit = main()
    print(audit, audit.save("audit_table.html"), sep="\n")
