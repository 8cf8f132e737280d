"""The landscape: starts, quantities on planted ends, who can tell, the command."""

import dataclasses
import json

import numpy as np
import pytest

from configs import landscape as config_file
from informed import cli
from shadow import checks
from shadow.store import ConfigurationMismatchError
from uninformed import candidates
from uninformed.bilevel import BilevelConfig
from uninformed.landscape import (
    conclusions,
    detection,
    mixtures,
    quantities,
    runs,
    study,
)
from uninformed.landscape.mixtures import Sets, StartsConfig
from uninformed.landscape.runs import LandscapeConfig, Outcomes


def smoke() -> LandscapeConfig:
    return checks.build(LandscapeConfig, config_file.get_config("smoke").to_dict())


@pytest.mark.parametrize("size", config_file.SIZES)
def test_every_configuration_is_valid_and_names_every_field(size):
    values = config_file.get_config(size).to_dict()
    config = checks.build(LandscapeConfig, values)
    made = dataclasses.asdict(config)
    assert json.dumps(made, sort_keys=True) == json.dumps(values, sort_keys=True)


@pytest.fixture(scope="module")
def sets() -> Sets:
    return mixtures.load(smoke().data, seed=0)


@pytest.fixture(scope="module")
def begun(sets) -> dict[str, np.ndarray]:
    return mixtures.make(StartsConfig(), sets, seed=0)


def planted(images: np.ndarray, **changes) -> Outcomes:
    """Outcomes at these images; all other fields are trivial."""
    count, points = images.shape[:2]
    return Outcomes(
        **{
            "images": images,
            "distance": np.zeros(count),
            "size": 1.0,
            "loss": np.zeros((count, points)),
            "slope_norm": np.zeros(count),
            "basis": None,
            "centre": np.zeros(64),
        }
        | changes
    )


def test_the_sets_are_disjoint(sets):
    kinds = (sets.truth, sets.partition, sets.noise, sets.held_out)
    seen = [{image.tobytes() for image in images} for images in kinds]
    assert len(set.union(*seen)) == sum(len(images) for images in kinds)


def test_the_partition_has_the_labels_of_the_training_images(sets, digits):
    label = {
        i.tobytes(): y % 2 for i, y in zip(digits.images, digits.labels, strict=True)
    }
    for kind in (sets.truth, sets.partition):
        assert [label[image.tobytes()] for image in kind] == sets.labels.tolist()


@pytest.mark.parametrize(("held_out", "why"), [(1, "to leave"), (6, "to have")])
def test_a_partition_and_the_control_need_images(held_out, why):
    config = dataclasses.replace(smoke().data, held_out=held_out)
    with pytest.raises(ValueError, match=f"Expected held_out {why}"):
        mixtures.load(config, seed=0)


def test_mixtures(sets, begun):
    for name, images in (("truth", sets.truth), ("partition", sets.partition)):
        np.testing.assert_allclose(begun[name], images)
    np.testing.assert_allclose(
        begun["0.25 0.5"],
        (0.25 * sets.truth + 0.75 * sets.partition + sets.noise) / 2,
        rtol=1e-5,
        atol=1e-6,
    )
    mixed = [name for name in begun if name[0].isdigit()] + list(mixtures.CORNERS)
    assert len(mixed) == 21  # 25, less four of nothing but noise


def test_the_other_starts(sets, begun):
    repeated = begun[mixtures.COLLAPSED]
    for label in (0, 1):
        assert len(np.unique(repeated[sets.labels == label], axis=0)) == 1
    assert begun["normal 1"].std() == pytest.approx(1, abs=0.2)
    moved = begun["truth perturbed 0"] - sets.truth
    assert moved.std() == pytest.approx(0.05, rel=0.2)
    assert not np.array_equal(moved, begun["truth perturbed 1"] - sets.truth)


def test_quantities_of_planted_ends(sets):
    """The training images themselves, and one image many times."""
    repeated = np.repeat(sets.partition[:1], len(sets.truth), axis=0)
    ends = planted(
        np.stack([sets.truth, repeated]), distance=np.array([0.0, 3.0]), size=2.0
    )
    measured = quantities.measure(sets, ends)
    count = len(sets.truth)
    for name, expected in {
        "truth": [0, None],
        "partition": [None, 0],
        "ssim": [1, None],
        "recovered": [count, 0],
        "distinct": [count, 0],
        "distance_relative": [0, 1.5],
    }.items():
        for value, wanted in zip(measured[name], expected, strict=True):
            if wanted is None:
                assert value > 0.1
            else:
                assert value == pytest.approx(wanted, abs=1e-6)


def test_the_control_changes_places_with_the_training_images(sets):
    count = len(sets.truth)
    ends = planted(np.stack([sets.truth, sets.held_out[:count]]))
    measured = quantities.measure(sets, ends)
    for name in ("recovered", "distinct"):
        np.testing.assert_array_equal(measured[name], [count, 0])
        np.testing.assert_array_equal(measured[f"held_out_{name}"], [0, count])
    measured = {name: values[::-1] for name, values in measured.items()}
    said = study._verdict(["noise", "partition"], measured, count)
    assert said.startswith("begun at partition, 4 of 4 training images recovered")
    # What was begun at the training images isn't told.
    said = study._verdict(["noise", "truth"], measured, count)
    assert said.startswith("begun at noise, 0 of 4 training images recovered; ")


def test_copies_of_one_training_image_are_one(sets):
    copies = np.repeat(sets.truth[:1], len(sets.truth), axis=0)[None]
    measured = quantities.measure(sets, planted(copies))
    assert measured["recovered"] == len(sets.truth)
    assert measured["distinct"] == 1


def planted_quantities(names: list[str], **values) -> dict[str, np.ndarray]:
    """Zeros, but for {quantity: {start: value}}."""
    kinds = ("distance_relative", "ssim", "held_out_ssim", "truth", "partition")
    found = {kind: np.zeros(len(names)) for kind in kinds}
    for kind, by_start in values.items():
        for start, value in by_start.items():
            found[kind][names.index(start)] = value
    return found


def test_conclusions_of_a_case_as_the_paper_has_it(begun):
    names = list(begun)
    far = {name: 10.0 for name in names if name != "truth"}
    paper = planted_quantities(
        names, truth=far, ssim={"noise": 0.3}, held_out_ssim={"noise": 0.3}
    )
    found = conclusions.of_method(names, paper)
    said = {letter: each["confirmed"] for letter, each in found.items()}
    assert said == dict.fromkeys("abcdg", True)


def test_conclusions_of_a_case_against_the_paper(begun):
    """Nothing fits, noise ends at training images, the partition at neither."""
    names = list(begun)
    against = planted_quantities(
        names,
        distance_relative=dict.fromkeys(set(names) - {"truth"}, 0.5),
        ssim={"noise": 0.9},
        partition=dict.fromkeys(names, 10.0),
    )
    found = conclusions.of_method(names, against)
    said = {letter: each["confirmed"] for letter, each in found.items()}
    assert said == dict.fromkeys("abcdg", False)


def test_every_start_with_a_share_of_the_truth_is_known_as_one(sets, begun):
    """Against the images themselves: what else is a combination of other images."""
    others = [sets.partition.ravel(), sets.noise.ravel(), np.ones(sets.truth.size)]
    for name, images in begun.items():
        if "perturbed" in name or name in (mixtures.COLLAPSED, "normal 1"):
            continue
        left = np.linalg.lstsq(np.array(others).T, images.ravel(), rcond=None)[1]
        assert mixtures.holds_truth(name) == bool(left[0] > 1e-3), name
    assert mixtures.holds_truth("truth perturbed 3")
    for other in ("noise perturbed 3", "normal 1", mixtures.COLLAPSED):
        assert not mixtures.holds_truth(other)


def test_contraction_of_what_halves(begun):
    images = np.stack(list(begun.values()))
    found = conclusions.contractions(3, list(begun), images, images / 2)
    assert list(found.values()) == pytest.approx([0.5] * 3, rel=1e-5)
    measured = dict.fromkeys(("bilevel", "kkt"), planted_quantities(list(begun)))
    for factor, smoother in ((0.4, True), (0.5, False)):
        ended = {"bilevel": images / 2, "kkt": factor * images}
        both = conclusions.conclude(3, list(begun), images, ended, measured)
        assert both["bilevel against kkt"]["h"]["confirmed"] == smoother


def test_scores_tell_what_they_should(rng):
    """Planted: fit and loss say nothing, the span everything."""
    basis = np.linalg.qr(rng.standard_normal((64, 3)))[0].T
    inside = rng.standard_normal((1, 4, 3)) @ basis
    outside = rng.standard_normal((1, 4, 64))
    images = np.concatenate([inside, outside]).reshape(2, 4, 8, 8, 1)
    true = np.array([[True] * 4, [False] * 4])
    found = detection.uninformed(["0 0.5", "noise"], planted(images, basis=basis), true)
    assert found["span"].summary()["auc"] == 1
    assert found["parameters"].summary()["auc"] == 0.5
    assert found["parameters"].summary()["clusters"] == 2
    summary = detection.uninformed(["truth", "noise"], planted(images), true)
    assert "span" not in summary
    mixed = detection.uninformed(["0.25 1", "noise"], planted(images), true)
    assert mixed["loss"].summary()["auc_not_begun_at_truth"] is None, "a quarter of it"
    assert summary["loss"].summary()["true_not_begun_at_truth"] == 0
    assert summary["loss"].summary()["auc_not_begun_at_truth"] is None


def test_an_informed_adversary_can_tell(sets, begun):
    """The closed form answers to rounding; nothing else comes near."""
    found = detection.informed(sets, begun, decay=1e-2)
    assert found.summary()["auc"] == 1
    assert found.true.sum() == len(sets.truth)
    gap = detection.gap(found)
    assert gap["largest_true"] < 1e-20
    assert gap["smallest_false"] > 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("method", runs.METHODS)
def test_batches_are_kept_and_don_t_matter(method, sets, begun, tmp_path):
    config = dataclasses.replace(smoke(), methods=(method,))
    few = {name: begun[name] for name in ("noise", "partition", "truth")}
    one = runs.run(config, method, sets, few, tmp_path / "a")
    small = dataclasses.replace(config, at_once=2)
    two = runs.run(small, method, sets, few, tmp_path / "b")
    np.testing.assert_allclose(one.images, two.images, atol=1e-3)
    files = sorted((tmp_path / "b" / "ends").iterdir())
    assert len(files) == 2
    files[1].unlink()
    again = runs.run(small, method, sets, few, tmp_path / "b")
    np.testing.assert_array_equal(two.images, again.images)
    other = dataclasses.replace(config, seed=1)
    with pytest.raises(ConfigurationMismatchError, match="seed"):
        runs.run(other, method, sets, few, tmp_path / "a")


def test_one_hidden_layer(sets, begun, tmp_path):
    """From theta the truth stays; weights are combinations of training images."""
    config = dataclasses.replace(
        smoke(),
        victim=runs.BilevelVictimConfig(kind="one_hidden", width=8, decay=1e-2),
        attack=BilevelConfig(steps=20),
    )
    few = {name: begun[name] for name in ("partition", "truth")}
    outcomes = runs.run(config, "bilevel", sets, few, tmp_path)
    shift = np.abs(outcomes.images[1] - sets.truth).max()
    assert shift < 0.05 < np.abs(outcomes.images[0] - sets.partition).max()
    assert outcomes.basis is not None
    spanned = np.linalg.qr(sets.truth.reshape(4, -1).T)[0].T
    inside = np.linalg.norm(outcomes.basis @ spanned.T, axis=1)
    np.testing.assert_allclose(inside, 1, atol=1e-3)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"methods": ("deco",)}, "methods"),
        ({"methods": ()}, "number of methods"),
        ({"kkt": dataclasses.replace(smoke().kkt, restarts=3)}, r"kkt\.restarts"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change, match):
    with pytest.raises(ValueError, match=match):
        dataclasses.replace(smoke(), **change)


def test_intervals_are_those_of_clusters_not_of_images(rng):
    """Copies of an image within its cluster add nothing to what is known."""
    clusters, copies = 16, 20
    true = np.arange(clusters) % 2 == 0
    values = true + rng.normal(size=clusters)

    def scores(times):
        return detection.DetectionScores(
            np.repeat(values, times),
            np.repeat(true, times),
            np.zeros(clusters * times, bool),
            np.repeat(np.arange(clusters), times),
        ).summary()

    once, often = scores(1), scores(copies)
    assert once["auc"] == often["auc"]
    assert once["auc_95"] == often["auc_95"]
    low, high = once["auc_95"]
    assert low < once["auc"] < high
    assert high - low > 0.15, "sixteen of them can't tell more"


@pytest.mark.slow
def test_command_line(tmp_path, capsys):
    arguments = ["landscape", "--config=configs/landscape.py:smoke"]
    cli.main([*arguments, f"--workdir={tmp_path}", "--json"])
    results = json.loads(capsys.readouterr().out.splitlines()[-1])
    truth = results["starts"].index("truth")
    assert results["bilevel"]["truth"][truth] == 0  # begun at the truth: nothing moves
    assert set(results["conclusions"]["bilevel"]) == set("abcdg")
    assert set(results["conclusions"]["bilevel against kkt"]) == set("h")
    assert results["detection"]["informed"]["retraining"]["auc"] == 1
    cli.main([*arguments, f"--workdir={tmp_path}"])  # from what is kept
    lines = capsys.readouterr().out
    assert lines.splitlines()[0].startswith("bilevel: ")
    assert lines.splitlines()[:3] == results["verdict"].splitlines()
    assert "conclusions, bilevel against kkt" in lines
    pictures = [line.split()[-1] for line in lines.splitlines() if "picture" in line]
    assert len(pictures) == 5
    for picture in pictures:
        assert (tmp_path / picture.split("/")[-1]).stat().st_size > 1000
    cli.main(["bilevel", *arguments[1:], f"--workdir={tmp_path}", "--json"])
    alone = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert alone["bilevel"] == results["bilevel"]
    assert "kkt" not in alone
    assert alone["verdict"] == results["verdict"].splitlines()[0]


def test_similarity_is_that_of_the_better_of_two_views(sets):
    """Contrast is given back by stretching, and isn't asked for by clipping."""
    faint = 0.3 + 0.2 * sets.truth
    found = np.diag(quantities.similarities(faint, sets.truth))
    plain = candidates.ssim(sets.truth, faint, window=quantities.WINDOW)
    assert np.all(found > plain + 0.1)
