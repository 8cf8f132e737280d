"""The programs in README and docs run as they stand, and show what they say."""

import html
import math
import os
import re
from pathlib import Path

import numpy as np
import pytest

import dp
import informed
from informed.cli import main
from shadow import released

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def programs(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.fixture
def printed(capsys, monkeypatch, tmp_path):
    """What the cells of a page print: here, or when the site was built (`.ci/run`)."""

    def of(page: str) -> str:
        if built := os.environ.get("DOCS_HTML"):
            text = (Path(built) / page).with_suffix(".html").read_text()
            outputs = re.findall(r'<div class="output.*?<pre>(.*?)</pre>', text, re.S)
            return html.unescape(re.sub("<.*?>", "", "".join(outputs)))
        monkeypatch.setenv("MPLBACKEND", "agg")
        monkeypatch.chdir(tmp_path)
        text = (ROOT / "docs" / page).read_text()
        blocks = re.findall(
            r"```\{code-cell\}\n(?:---\n.*?\n---\n)?(.*?)```", text, re.S
        )
        exec(compile("\n".join(blocks), page, "exec"), {"__name__": "page"})
        return capsys.readouterr().out

    return of


def test_the_python_program_prints_what_the_page_says(tmp_path, monkeypatch, capsys):
    (program,) = programs(README)
    assert len(program.splitlines()) <= 30
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "README.md", "exec"), names := {})
    compared = informed.compare(
        names["split"].test, names["guess"], names["exact"],
        gallery=names["split"].shadow,
    )  # fmt: skip
    kernel, inversion = compared.guesses
    assert kernel.mse < compared.oracle_mse / 4, "a fifth"
    assert (inversion.mse, inversion.certified) == (0, 10), "bit for bit"
    printed = capsys.readouterr().out
    assert str(compared) in printed
    text = README.read_text()
    epsilon = re.search(r"an epsilon of ([\d.]+)\.", text)
    bound = re.search(r"print\(dp.*\)  # (.*)", program)
    assert epsilon is not None
    assert bound is not None
    assert printed.splitlines()[-2:] == [f"epsilon {epsilon[1]}", bound[1]]
    gamma = re.search(r"at most ([\d.]+) % \(\*gamma", text)
    assert gamma is not None
    assert f"gamma <= {float(gamma[1]) / 100:.3f} " in bound[1]


def numbers(shown: str, *rows: str) -> list[float]:
    """The first number in each of these rows of a printed table."""
    matches = [re.search(rf"^{row} +([\d.e+-]+)", shown, re.M) for row in rows]
    return [float(match[1]) for match in matches if match]


@pytest.mark.slow
def test_the_program_of_the_page_on_learned_attacks(printed):
    kernel, answers, oracle = numbers(
        printed("reconn.md"), "kernel", "kernel, black box", "nearest neighbour"
    )
    assert 0 < kernel < answers < oracle


def test_a_bound_in_two_lines_prints_what_its_comment_says(capsys):
    page = ROOT / "docs" / "privacy.md"
    (program,) = (p for p in programs(page) if "PoissonGaussian" in p)
    exec(compile(program, page.name, "exec"), {})
    expected = re.search(r"print\(.*\)  # (.*)", program)
    assert expected is not None
    assert capsys.readouterr().out.strip() == expected[1]


def test_the_calibration_of_the_page_on_privacy(capsys):
    program = programs(ROOT / "docs" / "privacy.md")[1]
    names: dict = {"dp": dp}
    exec(compile(program, "privacy.md", "exec"), names)
    sigma, epsilon = map(float, capsys.readouterr().out.split())
    written = re.search(r"print\(.*# ([\d.]+) and ([\d.]+), rounded up", program)
    assert written is not None
    shown = [f"{math.ceil(100 * value) / 100:.2f}" for value in (sigma, epsilon)]
    assert tuple(shown) == written.groups()
    bounded = dp.Gaussian(noise_multiplier=sigma, steps=100, relation="zero_out")
    high = names["kappa"].high
    assert 0.25 < float(dp.rero_bound(bounded, log_kappa=high).gamma) <= 0.3
    assert f"{math.ceil(1000 * np.exp(high)) / 10} %" in program


@pytest.mark.slow
def test_the_program_of_the_page_on_inversion(printed):
    shown = printed("inversion.md")
    assert shown.count("certified True") == 2
    errors = re.findall(r"MSE ([\d.e+-]+);", shown)
    assert len(errors) == 2
    assert all(float(error) < 1e-10 for error in errors)


@pytest.mark.slow
def test_the_tutorial_on_an_own_model(printed):
    shown = printed("tutorials/own_model.md")
    assert re.findall(r"^missing blocks: (.*)", shown, re.M) == ["[2, 3, 4, 5]", "[]"]
    kernel, network, inversion, oracle = numbers(
        shown, "kernel", "network", "inversion", "nearest neighbour"
    )
    assert kernel < oracle / 4, "a fifth"
    assert kernel < network
    assert inversion == 0, "bit for bit"
    assert re.search(r"^inversion .* 20 of 20 .*\)  20  ", shown, re.M), "certified"


def contract(library: str) -> str:
    """The lines of the page on audits that use a library; skipped without it."""
    pytest.importorskip(library)
    text = (ROOT / "docs" / "audit.md").read_text().split("## The contract")[1]
    blocks = re.findall(r"```python\n(.*?)```", text.split("\n## ")[0], re.DOTALL)
    (program,) = (b for b in blocks if re.search(rf"(import|from) {library}", b))
    return program


LIBRARIES = pytest.mark.parametrize("library", ["torch", "sklearn"])


@LIBRARIES
def test_the_contract_trains_by_its_seed_alone(library, digits):
    names: dict = {}
    exec(compile(contract(library), "audit.md", "exec"), names)
    few = digits.take(np.arange(100))
    images = np.asarray(few.images, np.float32)
    models = [names["train"](images, few.labels, seed) for seed in (3, 3, 4)]
    first, again, other = (released.parts(model) for model in models)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.array, b.array)
    assert any((a.array != b.array).any() for a, b in zip(first, other, strict=True))
    if "predict" in names:
        assert names["predict"](models[0], images).shape == (100, 10)


@pytest.mark.slow
@LIBRARIES
def test_the_pre_flight_finds_nothing_to_mend_in_the_contract(
    library, tmp_path, capsys
):
    file = tmp_path / f"contract_{library}.py"
    file.write_text(contract(library))
    command = ["audit", f"{file}:train", "--data", "digits", "--fixed", "100"]
    main([*command, "--targets", "2", "--check"])
    printed = capsys.readouterr().out
    assert "deterministic   yes" in printed
    assert "accuracy" in printed
    assert not re.search("^(stops|weakens)", printed, re.MULTILINE)


@pytest.mark.parametrize("page", [README, *sorted((ROOT / "docs").glob("*.md"))])
def test_what_a_page_links_to_exists(page):
    links = re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text())
    assert len(links) > 4 or page != README
    for link in links:
        assert (page.parent / link).exists(), link
