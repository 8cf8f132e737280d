"""What people mistype: one line that names the option or file, and what is allowed."""

import math
import subprocess
import sys

import numpy as np
import pytest

from dp import bounds, sampling
from informed.audit import auditing, noise_game
from informed.audit.auditing import AuditConfig
from informed.cli import configuration, main, options
from informed.experiment import shadow_sets
from shadow.launchers import tasks
from tests.informed.command_line import SMALL, refused, run

# A shadow data set of four models.
TINY = " ".join(
    (*SMALL, "--config.shadow.count=4 --config.training.epochs=1 --workdir=made")
)
BOUND = "bound --noise-multiplier 1 --kappa 0.1"
EPOCHS = "--records 60000 --batch 256 --epochs 15"
AUDIT = "audit mine.py:train --data mine.npz"
# The line as it is typed, in a folder of files, and parts of the answer: first those
# that need no JAX.
EARLY = {
    # Commands and options
    "adit mine.py:train": "no command 'adit'. Did you mean 'audit'?",
    "": "missing command | --help",
    "shadow verfy made": "action: expected one of make | 'verfy' | 'verify'?",
    f"{AUDIT} --minuts 3": "'--minuts'. Did you mean '--minutes'? | audit --help",
    f"{AUDIT} -minutes 3": "'-minutes'. Did you mean '--minutes'?",
    f"{BOUND} --stepps=3": "unknown option '--stepps=3'. Did you mean '--steps'?",
    "run --confg=digits --workdir w": "Did you mean '--config'?",
    f"{BOUND} --steps 3 --config=digits": "unknown option '--config=digits'",
    "report made mine.json": "unexpected 'mine.json'",
    f"{AUDIT} --minutes": "--minutes: expected a value",
    "attacks --json=1": "--json: takes no value, got '1'",
    "audit mine.py:train": "missing --data. Example: informed audit examples/",
    "run --workdir=w": "missing --config. Example: informed run --config=",
    "calibrate --steps 3 --kappa 0.1": "missing --gamma. Example: informed calibrate",
    # Numbers and names
    f"{AUDIT} --minutes ten": "--minutes: expected a number > 0 and finite, got 'ten'.",
    f"{AUDIT} --targets 0": "--targets: expected a whole number >= 1, got '0'.",
    f"{AUDIT} --max-success 3": "--max-success: expected a number in [0, 1], got '3'.",
    f"{AUDIT} --threshold 0.2": "--threshold: expected a number > 1/4",
    f"{AUDIT} --skip inversoin": "--skip: expected one of | mean 'inversion'?",
    f"{BOUND} --steps 1.5": "--steps: expected a whole number >= 1, got '1.5'.",
    "bound --noise-multiplier 1 --steps 9 --kappa 2": "--kappa: expected | (0, 1]",
    f"{BOUND} --records 9 --batch 3 --epochs 1 --sampling shufled": "'shuffled'?",
    # Files and folders
    "audit mine.py --data mine.npz": "FILE.py:FUNCTION, such as mine.py:train",
    "audit mime.py:train --data mine.npz": "'mime.py'. Did you mean 'mine.py'?",
    "audit mine.py:train --data min.npz": "--data: | 'min.npz'. Did you mean 'mine.npz",
    "report nowhere": "WORKDIR: there is no folder 'nowhere'",
    "report made --registers mime.py": "--registers: | Did you mean 'mine.py'?",
    "evaluate --config=digits --workdir=nowhere": "'nowhere' | `informed shadow`",
    "shadow info mead": "'mead'. Did you mean 'made'?",
    "bound --kappa 0.1 --from histroy.json": "--from: | Did you mean 'history.json'?",
}
LATE = {
    "audit mine.py:trian --data mine.npz": "no function 'trian' | 'train'?",
    "audit mine.py:train --data digist": "--data | 'digist' | 'digits'?",
    "audit mine.py:train --data empty.npz": "empty.npz | images",
    "audit mine.py:train --data range.npz": "range.npz | labels",
    "audit mine.py:train --data t.csv --label spezies": "'spezies' | species",
    "audit mine.py:train --data real.csv": "real.csv | label",
    f"{AUDIT} --label y": "--label | .csv",
    f"{AUDIT} --out audit.pdf": "audit.pdf | .html or .json",
    f"{AUDIT} --check --out audit.html": "--out | --check",
    "report empty": "empty | informed run",
    "run --config=digits --workdir=s3://b/x": (
        "--workdir to be a folder, got 's3://b/x' | hold only shadow models"
    ),
    "shadow --config=digits --workdir=ftp://x/y": "'ftp://x/y'",
    "shadow --config=digits": "--workdir=DIR",
    "attack --config=digits --workdir=empty": "`informed shadow`",
    "evaluate --config=digits --workdir=empty": "`informed shadow`",
    # Configurations and their folders
    "run --config=digist --workdir w": "'digist' | Did you mean 'digits'?",
    "run --config=digits --config.shadow.cuont=5 --workdir w": "cuont | 'count'",
    "run --config digits --config.shadow.count=ten --workdir w": "=ten: expected a",
    "kkt --config=kkt --config.data.name=mnits --workdir w": "data.name | 'mnist'",
    f"shadow {TINY} --config.seed=9": "seed: 0 there, 9 asked for | --workdir",
    f"attack {TINY} --only=reconm": "--only | 'reconn'?",
    f"attack {TINY} --distributed=here": "--distributed=HOST:PORT,I/N, got 'here'",
    "shadow info": "informed shadow info STORE",
    "shadow info empty": "no shadow store at",
    "shadow verify": "informed shadow verify STORE",
    "shadow verify empty": "no shadow store at empty | informed shadow",
    "shadow verify --workdir=empty": "`informed shadow`",
    "shadow merge made": "informed shadow merge made STORE",
    # Options of other actions
    "shadow --config=x.py --workdir=w --sample=0": "--sample is of `informed shadow",
    "shadow info . --worker=3/16": "--worker is of `informed shadow",
    "shadow plan --config=x.py --launcher=ray": "--launcher is of `informed shadow",
    "shadow verify made --form=patches": "--form is of",
    "shadow verify made --compilation-cache=x": "--compilation-cache is of",
    # Bounds
    f"{BOUND} --records 6 --batch 7 --epochs 1 --sampling fixed": "--batch <= | = 6",
    BOUND: "--records, --batch and --epochs, or --steps",
    f"{BOUND} --records 9 --steps 3": "--steps and --records",
    f"{BOUND} --records 9 --batch 3": "got no --epochs",
    f"{BOUND} {EPOCHS}": "need --sampling",
    f"{BOUND} {EPOCHS} --sampling-probability 0.1": "is --batch over --records",
    f"{BOUND} {EPOCHS} --sampling shuffled --relation add_or_remove": "Use zero_out",
    f"{BOUND} --steps 9 --sampling fixed": "--sampling goes with --records",
    f"{BOUND} --steps 9 --sampling-probability 0": "--sampling-probability: ",
    f"{BOUND} --steps 9 --delta nan": "--delta: expected a number > 0 and < 1",
    f"{BOUND} --steps 9 --log-kappa=-1": "exactly one of --kappa",
    "bound --noise-multiplier 1 --steps 9": "exactly one of --kappa",
    "bound --steps 9 --kappa nan": "--kappa: expected a number in (0, 1], got 'nan'",
    "bound --steps 9 --log-kappa nan": "--log-kappa: expected a number <= 0",
    f"{BOUND} --steps 9 --bounds broken.py": "broken.py could not be run: NameError",
    "calibrate --gamma 0.01 --kappa 0.1 --steps 3": "--gamma > kappa = 0.1, got 0.01",
    "bound --kappa 0.1 --from history.pkl": "history.pkl | Pickles are not read",
    "bound --kappa 0.1 --from broken.json": "Pickles are not read",
    "bound --kappa 0.1 --from twice.json": "twice.json.mechanism once",
    "bound --kappa 0.1 --from other.json": "it has epsilon",
    "bound --kappa 0.1 --from history.json --steps 3": "--steps doesn't go with",
    f"{BOUND} --from history.json": "--noise-multiplier doesn't go with",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files to make mistakes with, and a small shadow data set."""
    path = tmp_path_factory.mktemp("mistakes")
    path.joinpath("mine.py").write_text(
        "def train(images, labels, seed):\n    return images.mean(axis=0)\n"
    )
    images, labels = np.zeros((9, 4, 4)), np.arange(9) % 3
    np.savez(path / "mine.npz", images=images, labels=labels)
    np.savez(path / "empty.npz", labels=labels)
    np.savez(path / "range.npz", images=images, labels=labels, num_classes=2)
    path.joinpath("t.csv").write_text("length,species\n" + "1,a\n2,b\n" * 9)
    path.joinpath("real.csv").write_text("a,b\n" + "1,0.5\n2,0.25\n" * 9)
    path.joinpath("audit.json").write_text("{}")
    path.joinpath("results.json").write_text('{"attacks": {"reconn": {}}}')
    path.joinpath("broken.py").write_text("nothing_of_this_name\n")
    path.joinpath("broken.json").write_text("{")
    path.joinpath("other.json").write_text('{"epsilon": 3}')
    history = '"history": [[1, 1, 1]], "mechanism": "rdp"'
    path.joinpath("history.json").write_text(f"{{{history}}}")
    path.joinpath("twice.json").write_text(f'{{{history}, "mechanism": "rdp"}}')
    path.joinpath("history.pkl").write_bytes(b"\x80\x04K\x01.")
    path.joinpath("empty").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        main(["shadow", *TINY.split(), "--quiet"])
    return path


@pytest.mark.parametrize("line", EARLY | LATE)
def test_a_mistake_is_one_line_that_helps(line, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    message = refused(capsys, *line.split())
    for part in (EARLY | LATE)[line].split(" | "):
        assert part in message


def test_jax_is_not_waited_for(folder):
    script = f"""
import contextlib, sys
from informed.cli import main
for line in {list(EARLY)}:
    with contextlib.suppress(SystemExit):
        main(line.split())
print("jax" in sys.modules)
"""
    line = [sys.executable, "-c", script]
    done = subprocess.run(line, capture_output=True, text=True, cwd=folder, check=True)
    assert done.stdout == "False\n"
    assert len(done.stderr.splitlines()) == len(EARLY)


def test_a_reader_that_stops_reading_is_no_error():
    """As `| head` does."""
    done = subprocess.Popen(
        [sys.executable, "-m", "informed.cli", "attacks"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.stdout is not None
    done.stdout.close()
    assert done.stderr is not None
    assert done.stderr.read() == ""
    assert done.wait() == 141


def test_underscores_are_dashes(capsys):
    line = f"bound --noise_multiplier=2 --steps 9 --log{{}}kappa {math.log(0.1)}"
    assert run(capsys, *line.format("_").split()) == run(
        capsys, *line.format("-").split()
    )


@pytest.mark.parametrize(
    ("line", "start"),
    [
        ("audit minus.py:x --minuts ten --help", "usage: informed audit [-h] --data"),
        ("shdow verfy --help", "usage: informed shadow"),
        ("--help run", "usage: informed run [-h] --config FILE"),
        ("help bound", "usage: informed bound"),
        ("nothing_like_it -h", "usage: informed [-h] command"),
    ],
)
def test_help_is_of_the_command_that_was_meant(line, start, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(line.split())
    assert not stopped.value.code
    assert capsys.readouterr().out.startswith(start)


def test_the_options_have_the_defaults_and_names_of_the_library():
    config = AuditConfig()
    assert {name: getattr(config, name) for name in options.AUDIT} == options.AUDIT
    assert options.PARTS == auditing.PARTS
    assert options.CANDIDATES == noise_game.CANDIDATES
    assert options.SAMPLINGS == sampling.SAMPLINGS
    assert options.RELATIONS == bounds.RELATIONS
    assert options.SAMPLE == shadow_sets.SAMPLE
    assert options.FORWARDED == tasks.FORWARDED
    parser = options.Parser()
    options.add(parser, "run")
    about = " ".join(parser.format_help().split())
    assert ", ".join(configuration.names()) in about
