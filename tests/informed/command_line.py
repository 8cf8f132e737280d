"""The command line as tests call it, on a small configuration."""

from pathlib import Path

import pytest

from informed import cli

ROOT = Path(__file__).parents[2]
SMALL = [
    f"--config={ROOT / 'configs' / 'digits.py'}",
    "--config.data.num_fixed=60",
    "--config.data.num_test=20",
    "--config.training.epochs=20",
    "--config.shadow.count=200",
    "--config.shadow.block_size=64",
    "--config.attacks.reconn.widths=(64,)",
    "--config.attacks.reconn.epochs=5",
    "--config.attacks.inversion.targets=2",
    "--config.attacks.inversion.stages=(16,)",
]


def run(capsys, *arguments) -> str:
    cli.main([*map(str, arguments)])
    return capsys.readouterr().out


def refused(capsys, *arguments) -> str:
    with pytest.raises(SystemExit) as stop:
        cli.main([*map(str, arguments)])
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1, message
    return message
