"""Files that are handed in: models that open no other file, tables of known rows."""

import json
import sys
import zipfile
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, VotingClassifier
from sklearn.impute import SimpleImputer
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import (
    OneHotEncoder,
    StandardScaler,
)

from artefacts import files
from artefacts.reconstruct import reconstruct
from dp.checks import FieldError


def _disguised(path: Any, name: str, module: str, arguments: tuple) -> None:
    """A scaler whose file calls a class with arguments as it is read."""
    from skops import io

    scaler = StandardScaler().fit(np.eye(3))
    scaler.extra_ = arguments
    io.dump(scaler, path)
    with zipfile.ZipFile(path) as file:
        held = {each: file.read(each) for each in file.namelist()}
    schema = json.loads(held["schema.json"])
    inside = schema["content"]["content"]
    inside["extra_"] = {
        "__class__": name,
        "__module__": module,
        "__loader__": "ConstructorFromReduceNode",
        "content": inside["extra_"],
        "__id__": 987654321,
    }
    held["schema.json"] = json.dumps(schema).encode()
    with zipfile.ZipFile(path, "w") as file:
        for each, value in held.items():
            file.writestr(each, value)


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("memmap", "sklearn.externals.array_api_compat.numpy"),
        ("GzipFile", "sklearn.datasets._covtype"),
        ("partial", "sklearn.compose._column_transformer"),
    ],
)
def test_a_file_opens_no_other_file(name, module, tmp_path):
    victim = tmp_path / "victim.txt"
    victim.write_text("something that matters")
    path = tmp_path / "evil.skops"
    _disguised(path, name, module, (str(victim), "uint8", "w+", 0, 4))
    with pytest.raises(FieldError, match=f"{module}.{name}"):
        files.load_estimator(path)
    assert victim.read_text() == "something that matters"


def test_no_class_counts_by_where_it_was_imported():
    """Of all names in scikit-learn's modules: none of another package's classes."""
    taken = [
        f"{name}.{each}"
        for name, module in list(sys.modules.items())
        if name.startswith("sklearn")
        for each, value in list(vars(module).items())
        if isinstance(value, type)
        and not str(value.__module__).startswith("sklearn")
        and files._is_harmless(f"{name}.{each}")
    ]
    assert not taken


def test_models_that_hold_more_than_arrays_are_read(wine, tmp_path):
    from skops import io

    rows, labels = wine
    for model in (
        SimpleImputer(),
        VotingClassifier([("bayes", GaussianNB())]),
        KNeighborsClassifier(algorithm="kd_tree"),
        HistGradientBoostingClassifier(max_iter=2),
        MLPClassifier(max_iter=2),
    ):
        with np.errstate(all="ignore"):
            fitted = model.fit(rows, labels)
        io.dump(fitted, tmp_path / "model.skops")
        again = files.load_estimator(tmp_path / "model.skops")
        assert type(again) is type(model)


def test_an_empty_cell_of_a_text_column_is_a_missing_value(tmp_path):
    path = tmp_path / "known.csv"
    path.write_text("size,colour\n1.5,red\n2.5,\n,green\n")
    rows, _, _ = files.load_table(path, "")
    assert np.isnan(rows[1, 1])
    assert np.isnan(rows[2, 0])
    colours = np.array([["red"], [np.nan], ["green"]], object)
    encoder = OneHotEncoder().fit(np.append(colours, [["red"]], axis=0))
    told = reconstruct(encoder, rows[:, 1:])
    assert not told.determined.any(), "red is among the known ones"
