"""Tables and folders of pictures as examples."""

import csv
import io

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import shadow
from shadow import folders, tables

CELLS = {
    "age": [30, 41, 52, 30],
    "weight": [60.5, 80.25, 71.0, 90.75],
    "city": ["Ulm", "Bonn", "Ulm", "Kiel"],
    "label": ["no", "yes", "no", "yes"],
}


@given(
    st.lists(
        st.tuples(st.floats(-1e6, 1e6), st.integers(-1000, 1000)),
        min_size=2,
        max_size=20,
    )
)
def test_features_are_the_numbers_of_the_file(rows):
    cells = {"a": [r[0] for r in rows], "b": [r[1] for r in rows]}
    table = tables.table_of(
        {**cells, "y": [0, 1] * (len(rows) // 2) + [0] * (len(rows) % 2)}
    )
    found = table.features(table.examples.images.astype(np.float64))
    wanted = np.stack([cells["a"], cells["b"]], axis=1)
    widths = np.maximum(np.ptp(wanted, axis=0), 1)
    assert np.abs(found - wanted).max(axis=0) == pytest.approx(
        [0, 0], abs=1e-6 * widths.max()
    )


def test_words_become_features_and_come_back():
    table = tables.table_of(CELLS)
    assert table.names == ("age", "weight", "city=Bonn", "city=Kiel", "city=Ulm")
    assert table.classes == ("no", "yes")
    np.testing.assert_array_equal(table.examples.labels, [0, 1, 0, 1])
    rows = table.rows(table.examples.images)
    assert [row["city"] for row in rows] == CELLS["city"]
    assert [row["weight"] for row in rows] == pytest.approx(CELLS["weight"], rel=1e-6)


def write_csv(path, cells):
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(cells)
    writer.writerows(zip(*cells.values(), strict=True))
    path.write_text(stream.getvalue())
    return path


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (CELLS | {"label": [0, "", 1, 0]}, "no empty cells.*'label'.*such as row 2"),
        (CELLS | {"age": [30, None, 52, 41]}, "no empty cells.*'age'.*such as row 2"),
        (CELLS | {"label": [0.1, 0.2, 0.3, 0.4]}, "to hold classes"),
        (CELLS | {"age": [30, np.inf, 1, 2]}, "finite numbers.*'age'"),
        ({"label": [0, 1]}, "columns beside 'label'"),
        (CELLS | {"age": [30]}, r"as many in each column; got \[1, 4\]"),
        (dict.fromkeys(CELLS, ()), r"to have rows.*got \[0\]"),
        ({}, "to have rows"),
    ],
)
def test_bad_tables_are_refused_in_a_line(cells, message):
    with pytest.raises(ValueError, match=message):
        tables.table_of(cells)


def test_an_empty_word_is_a_word(tmp_path):
    cells = CELLS | {"town": ["Ely", "", "Bath", "Ely"]}
    for table in (
        tables.table_of(cells),
        tables.load_table(write_csv(tmp_path / "t.csv", cells)),
    ):
        images = table.examples.images
        assert table.rows(images)[1]["town"] == tables.MISSING
        features = table.features(images)
        np.testing.assert_allclose(table.scaled(features), images, atol=1e-6)
        np.testing.assert_array_equal(
            np.asarray(table.features(jax.numpy.asarray(images), jax.numpy)),
            features.astype(np.float32),
        )


def test_a_line_with_too_few_cells_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n1,2,0\n1,0\n")
    with pytest.raises(ValueError, match=r"3 cells.*found 2 in line 3"):
        tables.load_table(tmp_path / "t.csv")
    with pytest.raises(ValueError, match="Did you mean 'label'"):
        tables.load_table(write_csv(tmp_path / "u.csv", CELLS), label="lable")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("x,y\n1,é\n".encode("latin-1"), r"mine.csv to be a table .* UTF-8"),
        (b"x,y\n1," + b"a" * 200_000, r"mine.csv .* field limit"),
        (b"x,y\n1,0\n2,NaN\n3,1\n", r"no empty cells.*of mine.csv.* row 2"),
    ],
)
def test_a_file_that_is_no_table_is_named(tmp_path, content, said):
    (tmp_path / "mine.csv").write_bytes(content)
    with pytest.raises(ValueError, match=said):
        tables.load_table(tmp_path / "mine.csv")


def test_a_picture_that_is_cut_short_is_named(tmp_path):
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "7.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(9))
    with pytest.raises(ValueError, match=r"7.png to be a picture"):
        shadow.load(str(tmp_path))


def test_a_folder_of_pictures(tmp_path, rng):
    pixels = rng.integers(0, 256, (4, 6, 5, 3), np.uint8)
    for i, name in enumerate(["cat", "cat", "dog", "dog"]):
        (tmp_path / name).mkdir(exist_ok=True)
        Image.fromarray(pixels[i]).save(tmp_path / name / f"{i}.png")
    found = shadow.load(f"{tmp_path}/")
    np.testing.assert_array_equal(found.images, pixels / np.float32(255))
    np.testing.assert_array_equal(found.labels, [0, 0, 1, 1])
    assert folders.classes(tmp_path) == ("cat", "dog")
    Image.fromarray(pixels[0][:3]).save(tmp_path / "dog" / "9.png")
    with pytest.raises(ValueError, match=r"one shape.*\(3, 5, 3\).*9\.png"):
        shadow.load(f"{tmp_path}/")


def test_bytes_are_welcome(tmp_path, rng):
    pixels = rng.integers(0, 256, (6, 4, 4), np.uint8)
    np.savez(tmp_path / "x.npz", images=pixels, labels=np.arange(6) % 2)
    found = shadow.load(str(tmp_path / "x.npz"))
    assert found.image_shape == (4, 4, 1)
    np.testing.assert_array_equal(found.images[..., 0], pixels / np.float32(255))


def test_codes_and_names_of_classes_stay_what_they_are():
    columns = {
        "code": ["1_2", "1_3", "4", "5"],
        "constant": [1e20] * 4,
        "label": [1234567, 1234568, 1234567, 1234568],
    }
    table = tables.table_of(columns, label="label")
    code, constant = table.columns
    assert code.words == ("1_2", "1_3", "4", "5")
    assert constant.low == 1e20
    assert np.isfinite(table.examples.images).all()
    assert table.classes == ("1234567", "1234568")
    coded = tables.table_of({"a": [1, 2, 3], "label": ["01", "1", "2"]}, label="label")
    assert coded.classes == ("01", "1", "2")


def test_missing_values_of_pandas_are_empty_cells():
    pd = pytest.importorskip("pandas")
    ages = pd.array([31, None, 45, 52], dtype="Int64")
    with pytest.raises(ValueError, match="no empty cells"):
        tables.table_of({"age": ages, "label": [0, 1, 0, 1]}, label="label")
