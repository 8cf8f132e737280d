"""`informed artefact`: skops files in, a page and JSON out; pickles refused."""

import csv
import html.parser
import json
import pickle
import re

import numpy as np
import pytest
from sklearn import compose, linear_model, pipeline, preprocessing
from sklearn.feature_extraction.text import TfidfVectorizer

from artefacts import files, page, reconstruct
from informed import cli
from tests.artefacts.planted import table
from tests.artefacts.span.test_reader import texts

io = pytest.importorskip("skops.io")
TARGET = 7
NASTY = "<script>alert(1)</script>"


@pytest.fixture
def folder(tmp_path):
    x, y = table("wine")
    model = pipeline.make_pipeline(
        preprocessing.StandardScaler(), linear_model.LogisticRegression()
    ).fit(x, y)
    io.dump(model, tmp_path / "model.skops")
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(model))
    with (tmp_path / "known.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([NASTY, *(f"f{j}" for j in range(1, 13)), "class"])
        for row, label in zip(x.tolist(), y.tolist(), strict=True):
            if row != x[TARGET].tolist():
                writer.writerow([*map(repr, row), label])
    return tmp_path


class Elements(html.parser.HTMLParser):
    """Names and addresses of what a page holds."""

    def __init__(self, text):
        super().__init__()
        self.names, self.addresses, self.open = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.names.add(tag)
        if tag != "meta":
            self.open.append(tag)
        self.addresses += [v for k, v in attributes if k in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_and_json(folder, capsys):
    x, y = table("wine")
    arguments = ["artefact", str(folder / "model.skops")]
    arguments += ["--known", str(folder / "known.csv")]
    arguments += ["--out", str(folder / "page.html")]
    cli.main([*arguments, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["exact"]
    assert told["certified"]
    assert told["label"] == y[TARGET]
    assert [f["value"] for f in told["features"]] == pytest.approx(x[TARGET].tolist())
    assert told["features"][0]["field"] == "standardscaler.mean_"
    assert told["after_sanitising"]["exact"]
    assert "standardscaler.var_" in told["removed"]
    assert "standardscaler.mean_" in [each["field"] for each in told["kept"]]
    assert all(each["why"] for each in told["kept"])
    assert told["unread"] == told["stored"] == told["refuted"] == []
    text = (folder / "page.html").read_text()
    elements = Elements(text)
    assert not elements.open
    assert "script" not in elements.names
    assert not elements.addresses
    assert "&lt;script&gt;" in text
    assert "standardscaler.mean_" in text
    cli.main(arguments)
    out = capsys.readouterr().out
    assert "The missing row is known: all 13 features" in out
    assert re.search(r"kept: standardscaler\.mean_ +the missing row follows", out)
    assert "Still in it, and why, below: standardscaler.mean_" in text


def test_a_release_gate(folder, capsys):
    arguments = ["artefact", str(folder / "model.skops"), "--json"]
    arguments += ["--known", str(folder / "known.csv")]
    with pytest.raises(SystemExit) as stopped:
        cli.main([*arguments, "--fail-if", "determined_share > 0.5"])
    assert stopped.value.code == 4
    told = capsys.readouterr()
    assert json.loads(told.out)["exact"]
    assert "determined_share is 1" in told.err
    cli.main([*arguments, "--fail-if", "exact < 1"])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("model.pkl", "unpickling runs code.*skops.io.dump"),
        ("model.joblib", "unpickling runs code"),
        ("none.skops", "found no"),
        ("known.csv", "can't be read as one"),
    ],
)
def test_files_that_are_refused(folder, capsys, model, message):
    arguments = ["artefact", str(folder / model), "--known", str(folder / "known.csv")]
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert re.search(message, line)


def test_a_renamed_pickle_is_not_unpickled(folder):
    class Bomb:
        def __reduce__(self):
            return (open, (str(folder / "ran"), "w"))

    (folder / "bomb.skops").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match="can't be read as one"):
        files.load_estimator(folder / "bomb.skops")
    assert not (folder / "ran").exists()


def shout(rows):
    return rows


def test_functions_and_strange_types_are_refused_by_name(folder):
    model = preprocessing.FunctionTransformer(shout).fit(np.ones((2, 2)))
    io.dump(model, folder / "strange.skops")
    with pytest.raises(ValueError, match=r"found .*\.shout"):
        files.load_estimator(folder / "strange.skops")


def test_tables_that_are_refused(folder):
    def wrong(text, match, label=None):
        (folder / "t.csv").write_text(text)
        with pytest.raises(ValueError, match=match):
            files.load_table(folder / "t.csv", label)

    wrong("a,b\n1,2\n3\n", "Expected 2 cells on every line.*found 1 on line 3")
    wrong("a,b\n", "a header and rows")
    wrong("a,clas\n1,2\n", "Did you mean 'clas'", label="class")
    with pytest.raises(ValueError, match="found no"):
        files.load_table(folder / "nowhere.csv")


def test_tables_of_numbers_texts_and_holes(folder):
    (folder / "t.csv").write_text("a,kind,b\n1,red,\n2,blue,3.5\n")
    rows, labels, names = files.load_table(folder / "t.csv", "")
    assert labels is None
    assert names == ("a", "kind", "b")
    assert rows[:, 1].tolist() == ["red", "blue"]
    assert np.isnan(rows[0, 2])
    rows, labels, names = files.load_table(folder / "t.csv", "kind")
    assert rows.dtype == np.float64
    assert labels.tolist() == ["red", "blue"]


def test_finding_1_a_refuted_artefact_is_not_green():
    x, _ = table("wine")
    model = preprocessing.StandardScaler().fit(x)
    known = x[1:].copy()
    known[4] = known[5]
    text = page.page("scaler", reconstruct(model, known))
    assert "known rows are not all the others" in text
    assert "nothing follows from that" in text
    assert 'class="verdict unclear"' in text
    assert 'class="verdict mild"' not in text


def written(path, header, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([header, *rows])
    return str(path)


def told(capsys, *arguments):
    """What the command prints as JSON."""
    cli.main(["artefact", *arguments, "--json"])
    return json.loads(capsys.readouterr().out)


def test_texts_come_back_as_words(tmp_path, capsys):
    documents = texts(3)
    labels = [f"c{i % 3}" for i in range(81)]
    model = pipeline.make_pipeline(
        TfidfVectorizer(), linear_model.LogisticRegression()
    ).fit(documents, labels)
    io.dump(model, tmp_path / "model.skops")
    rows = zip(documents[:-1], labels[:-1], strict=True)
    known = written(tmp_path / "known.csv", ["text", "class"], rows)
    record = told(capsys, str(tmp_path / "model.skops"), f"--known={known}")
    assert record["words"] == sorted(set(documents[-1].split()))
    assert record["certified"]
    assert record["label"] == labels[-1]


def test_a_gallery_names_the_row_or_nobody(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((41, 100)), np.arange(41) % 3
    io.dump(linear_model.LogisticRegression().fit(x, y), tmp_path / "model.skops")
    header = [f"f{j}" for j in range(100)]
    known = written(
        tmp_path / "known.csv",
        [*header, "class"],
        [
            [*map(repr, row), label]
            for row, label in zip(x[:-1].tolist(), y, strict=False)
        ],
    )
    others = rng.standard_normal((30, 100)).tolist()
    with_it = written(tmp_path / "a.csv", header, [*others, x[-1].tolist()])
    # Columns in another order, and one more.
    rows = [["x", *row[::-1]] for row in others]
    without = written(tmp_path / "b.csv", ["name", *header[::-1]], rows)
    arguments = [str(tmp_path / "model.skops"), f"--known={known}"]
    record = told(capsys, *arguments, f"--gallery={with_it}")
    assert record["named"] == [30]
    assert record["exact"]
    assert record["certified"]
    assert [each["value"] for each in record["features"]] == x[-1].tolist()
    record = told(capsys, *arguments, f"--gallery={without}")
    assert record["named"] == []
    assert "No row of the gallery" in record["verdict"]
    short = written(tmp_path / "c.csv", header[1:], [row[1:] for row in others])
    with pytest.raises(SystemExit):
        cli.main(["artefact", *arguments, f"--gallery={short}"])
    assert "there is no f0" in capsys.readouterr().err


@pytest.mark.parametrize("named", [True, False])
def test_columns_of_a_file_are_what_they_were_at_the_fit(tmp_path, capsys, rng, named):
    """Postcodes that were texts, truths, and classes that were texts of digits."""
    pandas = pytest.importorskip("pandas")
    count = 40
    codes = np.array(["01067", "10115", "20095"])[rng.integers(3, size=count)]
    codes[-1] = "99084"  # the missing row's, which nobody else has
    frame = pandas.DataFrame(
        {
            "age": rng.integers(18, 80, size=count) + rng.random(count),
            "post": codes,
            "member": rng.random(count) < 0.5,
        }
    )
    labels = np.array(["01", "02"])[rng.integers(2, size=count)]
    mixed = compose.ColumnTransformer(
        [
            ("number", preprocessing.StandardScaler(), [0]),
            ("kind", preprocessing.OneHotEncoder(), [1, 2]),
        ]
    )
    model = pipeline.make_pipeline(mixed, linear_model.LogisticRegression())
    model.fit(frame if named else frame.to_numpy(dtype=object), labels)
    io.dump(model, tmp_path / "model.skops")
    frame.assign(kind=labels)[:-1].to_csv(tmp_path / "known.csv", index=False)
    arguments = ["--known", str(tmp_path / "known.csv"), "--json"]
    cli.main(["artefact", str(tmp_path / "model.skops"), *arguments])
    told = json.loads(capsys.readouterr().out)
    assert told["contradictions"] == told["refuted"] == []
    age, post, _ = (feature["value"] for feature in told["features"])
    assert age == pytest.approx(frame["age"].iloc[-1])
    assert post == "99084"
    assert told["label"] == labels[-1]
    frame[["age"]].to_csv(tmp_path / "narrow.csv", index=False)
    narrow = ["--known", str(tmp_path / "narrow.csv"), "--label", ""]
    narrow += ["--gallery", str(tmp_path / "known.csv")]
    with pytest.raises(SystemExit):
        cli.main(["artefact", str(tmp_path / "model.skops"), *narrow])
    assert "Expected" in capsys.readouterr().err
