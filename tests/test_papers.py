"""The register of the papers' rows: complete, decidable, and the page is its own."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shadow
from benchmarks.papers import __main__ as command
from benchmarks.papers import classifier, many, numbers, page, register, results
from benchmarks.papers.balle import unknown
from benchmarks.papers.grid import Sweep, points
from benchmarks.papers.lab import Lab
from benchmarks.papers.row import MEASURES, Found, Line, Row


def test_every_row_has_a_result_or_says_what_it_needs():
    for row in register.ROWS:
        found = results.read(row)
        assert found is not None or row.needs, row.name
        # A row that can be measured says beforehand what decides.
        assert (row.measure is None) == (not row.decides), row.name
    assert set(MEASURES) <= set(register.names())


def test_names_are_told_apart_and_a_wrong_one_is_named():
    names = list(register.names())
    assert len(set(names)) == len(names)
    assert register.find("balle/table-3").name == "table-3"
    with pytest.raises(ValueError, match="several rows: haim/figures-6-7, runkel/"):
        register.find("figures-6-7")
    with pytest.raises(ValueError, match="No row is called 'table-33'"):
        register.find("table-33")


def test_what_is_kept_is_of_rows_of_the_register_and_of_a_commit():
    files = sorted(results.FOLDER.rglob("*.json"))
    known = {(row.paper, row.name) for row in register.ROWS}
    assert {(f.parent.name, f.stem) for f in files} <= known
    for file in files:
        found = json.loads(file.read_text())
        commit = found["provenance"]["commit"].removesuffix(" (archive)")
        assert len(commit) == 10, "measured on a changed tree"
        assert found["provenance"]["configurations"]
        for picture in found["pictures"]:
            assert (results.PICTURES / picture["file"]).is_file()


def test_the_list_has_one_json_object_a_row(capsys):
    command.main(["list", "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [f"{line['paper']}/{line['row']}" for line in lines] == [*register.names()]
    for line in lines:
        assert bool(line["shown"]) != bool(line["needs"])
        assert line["shown"] or line["holds"] is None


def test_canonical_order_forgets_the_order_of_units(rng):
    """Networks whose hidden units are permuted are one; and outputs stay the same."""
    victim = shadow.build_victim(
        shadow.VictimConfig(widths=(6,)), image_shape=(3, 3, 1), num_classes=4
    )
    params = victim.init(jax.random.key(0))
    order = rng.permutation(6)
    moved = {
        "hidden_0": {
            "w": params["hidden_0"]["w"][:, order],
            "b": params["hidden_0"]["b"][order],
        },
        "output": {
            "w": params["output"]["w"][order],
            "b": params["output"]["b"],
        },
    }
    thetas = np.stack([victim.flatten(params), victim.flatten(moved)])
    found = unknown.canonical(thetas, victim.layout)
    assert (thetas[0] != thetas[1]).any()
    np.testing.assert_array_equal(found[0], found[1])
    images = rng.random((5, 3, 3, 1)).astype(np.float32)
    np.testing.assert_allclose(
        victim.apply(victim.unflatten(jnp.asarray(found[0])), images),
        victim.apply(params, images),
        rtol=1e-5,
    )


@pytest.fixture
def one_row(tmp_path, monkeypatch):
    """A register of one row that is measured in no time, in folders of its own."""

    def measure(lab: Lab) -> Found:
        lab.kept("numbers", [1], lambda: {"x": np.arange(3)})
        ours = {"kernel KL": np.float32(2**-15), "n": "3"}
        line = Line(name="a", theirs={"MSE": 0.1}, ours=ours)
        return Found(
            holds=np.bool_(False), verdict="No.", theirs="0.1", ours="2", lines=[line]
        )

    row = Row(
        paper="balle",
        name="mine",
        title="Table X",
        claim="A claim.",
        size="small",
        decides="a rule",
        measure=measure,
    )
    monkeypatch.setattr(register, "ROWS", (row,))
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    monkeypatch.setattr(results, "PICTURES", tmp_path / "pictures")
    monkeypatch.setattr(page, "FILE", tmp_path / "page.md")
    monkeypatch.setattr(page, "PAGES", tmp_path / "pages")
    return row


def test_a_row_is_run_kept_and_put_on_the_page(one_row, tmp_path, capsys):
    with pytest.raises(ValueError, match="balle/mine has no result"):
        page.check()
    command.main(["run", "mine", "--work", str(tmp_path / "work"), "--quiet"])
    assert json.loads(capsys.readouterr().out)["holds"] is False
    found = results.read(one_row)
    assert found is not None
    assert found["lines"][0]["ours"] == {"kernel KL": 2**-15, "n": "3"}
    assert [c.split("-")[0] for c in found["provenance"]["configurations"]] == [
        "numbers"
    ]
    page.write()
    page.check()
    text = page.FILE.read_text()
    assert "1 of 1 rows are measured, of which 0 hold" in text
    assert (
        "[Table X](../benchmarks/papers/pages/balle-mine.markdown): *A claim.* No."
        in text
    )
    own = page.PAGES / "balle-mine.markdown"
    assert "| a | *0.1000* | 3.1e-05 | 3 |" in own.read_text()
    own.write_text(own.read_text().replace("No.", "Yes."))
    with pytest.raises(ValueError, match="stale"):
        page.check()


SMALL = (
    "shadow.count=60",
    "data.num_test=10",
    "training.epochs=3",
    "attacks.inversion.targets=0",
    "attacks.reconn.targets=0",
)


def test_rows_whose_runs_are_made_side_by_side(one_row, tmp_path, monkeypatch, capfd):
    """Two rows share a store; what one after the other finds, two processes find."""
    # Bits depend on the number of devices, which other tests choose.
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", str(jax.device_count()))

    def row_of(name: str, *settings: tuple[str, ...]) -> Row:
        def measure(lab: Lab) -> Found:
            runs = [
                lab.run(str(i), "digits.py", *SMALL, *fields, metrics=False)
                for i, fields in enumerate(settings)
            ]
            errors = [run.of("kernel") for run in runs]
            assert runs[0].guesses("kernel").shape == (10, 8, 8, 1)
            lines = [Line(name="kernel", ours={"MSE": error}) for error in errors]
            return Found(
                holds=True, verdict=f"{errors[0]:.4f}", theirs="", ours="", lines=lines
            )

        return dataclasses.replace(one_row, name=name, measure=measure)

    first = row_of("first", (), ("attacks.kernel.models=50",))
    second = row_of("second", ("attacks.kernel.models=40",))
    broken = row_of("broken", ("data.name=nothing.npz",), ())
    monkeypatch.setattr(register, "ROWS", (first, second, broken))
    rows = ["first", "second"]
    command.main(["run", *rows, "--work", str(tmp_path / "one"), "--quiet"])
    alone = [results.read(row) for row in (first, second)]
    capfd.readouterr()
    work = ["--work", str(tmp_path / "many"), "--quiet", "--processes", "2"]
    with pytest.raises(SystemExit) as ended:
        command.main(["run", *rows, "broken", *work])
    assert ended.value.code == 1
    told = capfd.readouterr()
    assert "4 of 4 runs" in told.out
    assert "There is no file nothing.npz" in told.err
    assert "broken: not measured, 1 of its runs failed" in told.err
    assert results.read(broken) is None
    assert len(list((tmp_path / "many" / "stores").iterdir())) == 1
    for row, before in zip((first, second), alone, strict=True):
        found = results.read(row)
        assert found["lines"] == before["lines"]
        assert found["provenance"]["made_at"] == before["provenance"]["made_at"]


def test_runs_are_foreseen_without_making_any(tmp_path):
    """Also where a row draws numbers that aren't known yet."""
    rows = {"figure-5c": 6, "balle/table-3": 12, "figure-17a": 10, "haim/figure-2": 0}
    for name, count in rows.items():
        found = many.wanted(register.find(name), Lab(tmp_path, progress=False))
        assert len(found) == count
    assert not list(tmp_path.iterdir())


def test_a_run_that_is_kept_is_read_on_another_machine(tmp_path, monkeypatch, capsys):
    """Its numbers are the run's, with who made them; no models are made again."""
    monkeypatch.setattr(numbers, "FOLDER", tmp_path / "kept")
    (point,) = points(Sweep(base="digits.py", points=(("small", *SMALL),)))
    first = Lab(tmp_path / "here", progress=False)
    made = first._play(point, "digits.py", SMALL, keep=True)
    other = Lab(tmp_path / "elsewhere", progress=False)
    read = other._play(point, "digits.py", SMALL, keep=True)
    assert read.of("kernel") == made.of("kernel")
    assert read.results["wall_s"] == made.results["wall_s"]
    assert other.makers == first.makers
    assert other.seconds == first.seconds
    assert not (tmp_path / "elsewhere" / "stores").exists()
    (file,) = (tmp_path / "kept").iterdir()
    assert str(tmp_path) not in file.read_text()
    # Of other code, or other images, they don't count.
    numbers_there = file.read_bytes()
    for old, new in (
        (b'"revision of kernel": ', b'"revision of kernel": 9'),
        (b'digits": "', b'digits": "0'),
    ):
        assert old in numbers_there
        file.write_bytes(numbers_there.replace(old, new))
        assert numbers.read(point.experiment, made.paths) is None
        assert "is not counted" in capsys.readouterr().out
    file.write_bytes(numbers_there)
    again = Lab(tmp_path / "again", progress=False, again=True)
    again._play(point, "digits.py", SMALL, keep=True)
    assert (tmp_path / "again" / "stores").exists()


def test_runs_on_the_same_targets_share_a_classifier(tmp_path, monkeypatch):
    made, of_run = [], classifier.of_run

    def noted(*arguments, **named):
        made.append(of_run(*arguments, **named))
        return made[-1]

    monkeypatch.setattr(classifier, "of_run", noted)
    shorter = ("training.epochs=3",), ("training.epochs=2",)
    both = points(
        Sweep(
            base="digits.py",
            overrides=(*SMALL, "attacks.kernel.targets=null"),
            points=tuple((field, field) for (field,) in shorter),
        )
    )
    lab = Lab(tmp_path, progress=False)
    runs = [lab._play(point, "digits.py", (), kl=True) for point in both]
    assert len(made) == 1
    assert lab.configurations.count("classifier") == 1
    for run in runs:
        assert run.results["classifier_accuracy"] == made[0].accuracy
        kl = run.judge.kl(run.truth.images, run.guesses("kernel"))
        assert run.of("kernel", "kl") == pytest.approx(kl.mean())
        assert kl.min() >= 0
    # A row that asks for no KL has none, of the same run.
    again = lab._play(both[0], "digits.py", ())
    assert again.judge is None
    assert "kl" not in again.results["attacks"]["kernel"]


def test_what_a_row_computes_itself_is_computed_once(tmp_path):
    lab, calls = Lab(tmp_path, progress=False), []

    def make():
        calls.append(1)
        return {"x": np.ones(2)}

    for _ in range(2):
        np.testing.assert_array_equal(lab.kept("x", [1], make)["x"], np.ones(2))
    assert len(calls) == 1
    lab.kept("x", [2], make)
    assert len(calls) == 2


def test_an_archive_knows_its_commit(tmp_path):
    """`git archive` writes it into a file, and what is run from there says it."""
    root = results.ROOT
    if not (root / ".git").exists():
        pytest.skip("needs a checkout")
    git = ["git", "-C", str(root)]
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    archive = tmp_path / "archive.tar"
    whole = [*git, "archive", "-o", str(archive), "HEAD"]
    subprocess.run([*whole, "benchmarks/__init__.py", "benchmarks/papers"], check=True)
    shutil.unpack_archive(archive, tmp_path, filter="data")
    code = (
        "from benchmarks.papers import provenance;"
        " print(provenance.__file__, provenance.commit())"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(root)])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith(str(tmp_path))
    assert found.stdout.strip().endswith(f" {head[:10]} (archive)")
