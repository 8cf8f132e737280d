"""What decides a run: the data that a user brings, too."""

import dataclasses

import numpy as np
import pytest
from PIL import Image

import shadow
from informed.cli.configuration import load_experiment
from informed.experiment import settings, stored
from shadow import folders
from tests.informed.command_line import SMALL


def test_what_a_function_of_the_users_loads_is_in_the_record(digits):
    """Its name stays, what it loads may not."""
    few = digits.take(slice(0, 50))
    images = [few, dataclasses.replace(few, images=1 - few.images)]
    experiment = settings.Experiment(data=settings.DataConfig(name="mine"))

    def record(examples):
        def load_mine():
            return examples

        shadow.register_source("mine", load_mine)
        return stored.shadow_record(experiment).configuration["files"]

    first, again, other = map(record, (*images[:1] * 2, images[1]))
    assert first == again
    assert set(first) == {"mine"}
    assert first != other


@pytest.fixture
def pictures(tmp_path, rng):
    for label in ("a", "b"):
        (tmp_path / "pictures" / label).mkdir(parents=True)
        for i in range(3):
            pixels = rng.integers(0, 256, (4, 4), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pictures" / label / f"{i}.png")
    return tmp_path / "pictures"


def test_pictures_that_changed_are_another_data_set(pictures):
    experiment = load_experiment([*SMALL, f"--config.data.name={pictures}"])
    before = stored.shadow_record(experiment)
    assert stored.shadow_record(experiment) == before
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(pictures / "b" / "1.png")
    assert stored.shadow_record(experiment) != before


def test_a_class_without_a_picture_is_refused(pictures):
    for file in (pictures / "b").iterdir():
        file.rename(file.with_suffix(".tif"))
    with pytest.raises(ValueError, match="none in b"):
        folders.read(pictures)
