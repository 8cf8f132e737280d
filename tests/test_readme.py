"""The README's program runs as it stands, and shows what it says."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def test_the_python_program(tmp_path, monkeypatch, capsys):
    (program,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "README.md", "exec"), {})
    found = re.search(r"RecoNN ([\d.]+), .* oracle ([\d.]+)", capsys.readouterr().out)
    assert found is not None
    error, oracle = map(float, found.groups())
    assert 0 < error < oracle


def test_what_the_readme_links_to_exists():
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text())
    assert len(links) > 4
    for link in links:
        assert (ROOT / link).exists(), link
