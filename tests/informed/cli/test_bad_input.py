"""What is wrong with a configuration is one clear line, before the first model."""

import importlib.util

import pytest

from tests.informed.command_line import SMALL, refused


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--config.victim.activation=rleu"], ["victim.activation", "'relu'"]),
        (["--config.attacks.reconn.epochs=0"], ["attacks.reconn.epochs >= 1, got 0"]),
        (["--config.data.num_fixed=2000"], ["digits", "2000", "1797"]),
        (["--config.attacks.inversion.targets=-1"], ["inversion.targets >= 0, got -1"]),
        (["--config.shadow.count=0"], ["shadow.count >= 1, got 0"]),
        (["--config.shadow.count=2"], ["config.shadow.count"]),
        (["--config.seed=-1"], ["config.seed"]),
        (["--config.data.seed=-1"], ["config.data.seed"]),
        (
            ["--config.attacks.reconn.models=201"],
            ["attacks.reconn.models <= shadow.count = 200"],
        ),
        (
            ["--config.attacks.inversion.targets=21"],
            ["inversion.targets <= data.num_test = 20"],
        ),
        (["--config.view.layers=('hiden_0',)"], ["config.view.layers", "hidden_0/b"]),
        (
            ["--config.view.kind=logits", "--config.view.probes=201"],
            ["config.view.probes <= 200"],
        ),
        (
            [
                "--config.view.kind=logits",
                "--config.view.queries=components",
                "--config.view.probes=65",
            ],
            ["config.view.probes <= 64, the pixels"],
        ),
        (
            [
                "--config.attacks.reconn.architecture=transposed_cnn",
                "--config.attacks.reconn.widths=(6,)",
            ],
            ["config.attacks.reconn.widths", "multiple of 4"],
        ),
        (
            ["--config.attacks.reconn.clip=inf"],
            ["config.attacks.reconn.clip > 0 and finite, got inf"],
        ),
        (
            ["--config.victim.architecture=cnn"],
            ["config.victim.architecture", "10 x 10"],
        ),
    ],
    ids=str,
)
def test_bad_configurations_are_one_clear_line(arguments, parts, tmp_path, capsys):
    message = refused(capsys, "shadow", *SMALL, *arguments, f"--workdir={tmp_path}")
    for part in parts:
        assert part in message
    assert not (tmp_path / "released").exists(), "before the first model"


def test_a_missing_extra_is_named_before_the_first_model(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for field in ("evaluation.lpips=True", "attacks.reconn.loss.lpips=1.0"):
        message = refused(
            capsys, "run", *SMALL, f"--config.{field}", f"--workdir={tmp_path}"
        )
        assert ".[lpips]" in message
    assert not (tmp_path / "released").exists()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("import nothing_such", "nothing_such"),
        ("def get_config(:", "SyntaxError"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("def get_config():\n    return {}", "a ConfigDict, got dict"),
    ],
)
def test_a_configuration_that_fails_to_import_is_one_line(
    tmp_path, capsys, text, named
):
    file = tmp_path / "mine.py"
    file.write_text(text)
    message = refused(capsys, "run", f"--config={file}", f"--workdir={tmp_path}")
    assert str(file) in message
    assert named in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--config={own}"], ("own.py sets config.data", "config.data.name")),
        (
            ["run", "--config=digits", "--config.data=x.npz"],
            ("config.data is a group", "config.data.name"),
        ),
        (
            ["run", "--config=digits", "--config.seed.first=1"],
            ("config.seed is 0", "has no fields"),
        ),
    ],
)
def test_32_a_group_that_is_set_to_a_value_is_named(arguments, words, tmp_path, capsys):
    own = tmp_path / "own.py"
    own.write_text(
        "import informed\n\n\ndef get_config():\n"
        "    config = informed.defaults(informed.Experiment)\n"
        '    config.data = "x.npz"\n    return config\n'
    )
    line = [each.format(own=own) for each in arguments]
    message = refused(capsys, *line, f"--workdir={tmp_path}")
    for word in words:
        assert word in message
