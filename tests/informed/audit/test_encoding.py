"""Pictures by a frozen encoder: batches joined, what is no embedding refused."""

import numpy as np
import pytest

from informed.audit import auditing, encoding
from shadow import checks, tables
from shadow.data import Examples

_FILE = """
import numpy as np

def encode(images):
    return images.reshape(len(images), -1) @ np.arange(36.0).reshape(12, 3)
"""


@pytest.fixture
def pictures(rng):
    images = rng.uniform(size=(250, 2, 2, 3)).astype(np.float32)
    return Examples(images=images, labels=np.arange(250) % 4, num_classes=4, name="p")


def test_embeddings_are_what_the_encoder_makes_of_each_picture(tmp_path, pictures):
    file = tmp_path / "mine.py"
    file.write_text(_FILE)
    examples, table = auditing.load(pictures, encoder=f"{file}:encode")
    assert table is not None
    wanted = pictures.images.reshape(250, -1) @ np.arange(36.0).reshape(12, 3)
    found = table.features(examples.images.astype(np.float64))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    np.testing.assert_array_equal(table.behind, pictures.images)
    np.testing.assert_array_equal(examples.labels, pictures.labels)


@pytest.mark.parametrize(
    ("encode", "said"),
    [
        (lambda images: images, r"\(batch, dimensions\) for a batch of 100, got \(100"),
        (lambda images: images[:50].reshape(50, -1), r"got \(50, 12\)"),
        (lambda images: np.full((len(images), 2), np.inf), "finite numbers"),
        (lambda images: np.ones((len(images), len(images))), r"after \(100, 100\)"),
        (lambda images: images @ np.ones((7, 2)), "encoder raised ValueError: matmul"),
    ],
)
def test_what_is_no_embedding_is_refused(pictures, encode, said):
    with pytest.raises(ValueError, match=said):
        encoding.encoded(encode, pictures, None)


def test_rows_of_a_table_are_no_pictures(rng):
    table = tables.embedded(rng.standard_normal((8, 3)), np.arange(8) % 2)
    with pytest.raises(checks.FieldError, match="takes pictures"):
        auditing.load(table, encoder=lambda images: images)


def test_a_function_that_is_not_there_is_named(tmp_path, pictures):
    file = tmp_path / "mine.py"
    file.write_text(_FILE)
    with pytest.raises(checks.FieldError, match="'encod'; it has encode"):
        auditing.load(pictures, encoder=f"{file}:encod")


def test_embeddings_may_be_handed_in_as_arrays(rng):
    arrays = {"embeddings": rng.standard_normal((4, 3)), "labels": np.arange(4) % 2}
    examples, table = auditing.load({**arrays, "texts": list("abcd")})
    np.testing.assert_allclose(table.features(examples.images), arrays["embeddings"])
    assert list(table.behind) == list("abcd")
    with pytest.raises(ValueError, match="images or embeddings, found labels"):
        auditing.load({"labels": arrays["labels"]})
