"""What a page shows of embeddings: the texts or pictures that they are of."""

import numpy as np
import pytest

from informed.report import page
from shadow import tables


@pytest.mark.parametrize("of", ["texts", "images"])
def test_a_guess_leads_to_what_was_embedded(tmp_path, rng, of):
    embeddings = rng.standard_normal((30, 6)).astype(np.float32)
    behind = {
        "texts": [f"a <letter> of person {i}" for i in range(30)],
        "images": rng.integers(0, 255, (30, 5, 5), dtype=np.uint8),
    }
    file = tmp_path / "e.npz"
    labels = np.arange(30) % 3
    np.savez(file, embeddings=embeddings, labels=labels, **{of: behind[of]})
    table = tables.load_embeddings(file)
    targets, images = table.examples.take(np.array([4, 9])), table.examples.images
    shown = page._behind(
        {
            "table": table,
            "shown": [0, 1],
            "targets": targets,
            # One guess is all but right, one leads elsewhere, one isn't there.
            "guesses": {
                "near": images[[4, 9]] + 1e-3,
                "far": images[[20, 21]],
                "unfinished": np.full_like(images[:1], np.nan),
            },
            "nearest": images[[7, 8]],
            "decoded": {
                "record": np.zeros((2, 5, 5, 1), np.float32),
                "near": np.full((2, 5, 5, 1), np.nan, np.float32),
                "far": np.zeros((1, 5, 5, 1), np.float32),
            },
        }
    )
    for record, place in zip(shown, (4, 9), strict=True):
        rows = {row["name"]: row for row in record["rows"]}
        assert list(rows) == ["record", "near", "far", "nearest public"]
        assert [row["right"] for row in rows.values()] == [False, True, False, False]
        decoded = [row["decoded"] is not None for row in rows.values()]
        assert decoded == [True, False, place == 4, False]
        if of == "texts":
            assert rows["record"]["text"] == behind["texts"][place]
            assert rows["far"]["text"] == behind["texts"][{4: 20, 9: 21}[place]]
        else:
            assert rows["record"]["source"].startswith("data:image/png;base64")
    assert shown[0]["class"] == "1"


def test_without_texts_or_pictures_nothing_is_shown(tmp_path, rng):
    file = tmp_path / "e.npz"
    np.savez(file, embeddings=rng.standard_normal((4, 3)), labels=np.arange(4) % 2)
    assert page._behind({"table": tables.load_embeddings(file)}) == []
