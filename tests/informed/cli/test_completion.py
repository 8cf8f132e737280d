"""Completion, asked as each shell asks: argcomplete's protocol, and real shells."""

import os
import shutil
import subprocess
import sys

import pytest

# What `register-python-argcomplete` sets in each shell.
SHELLS = {
    "bash": {"IFS": "\013", "COMP_TYPE": "9"},
    "zsh": {"IFS": "\013"},
    "fish": {"_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_DFS": "\t"},
}
INFORMED = f"{sys.executable} -m informed.cli"
REGISTER = f"{sys.executable} -m argcomplete.scripts.register_python_argcomplete"
LINE = "informed shadow ver"
REAL = {
    "bash": f"""informed() {{ {INFORMED}; }}
        eval "$({REGISTER} informed)"
        COMP_LINE="{LINE}"; COMP_POINT={len(LINE)}; COMP_TYPE=9
        _python_argcomplete informed; echo "${{COMPREPLY[@]}}" """,
    "zsh": f"""informed() {{ {INFORMED}; }}
        autoload -U is-at-least; compdef() {{ :; }}
        _describe() {{ print -l -- "${{(@P)2}}"; }}
        eval "$({REGISTER} informed)"
        BUFFER="{LINE}"; CURSOR={len(LINE)}; words=(informed); _python_argcomplete""",
    "fish": f"""function informed; {INFORMED}; end
        {REGISTER} --shell fish informed | source; complete -C "{LINE}" """,
}


def answer(command, folder, **environment):
    done = subprocess.run(
        command,
        env=os.environ | environment,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_options_and_files_are_completed(shell, tmp_path):
    (tmp_path / "mine.py").touch()
    (tmp_path / "mine.npz").touch()
    given = SHELLS[shell] | {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_SHELL": shell}
    given["_ARGCOMPLETE_SUPPRESS_SPACE"] = "1"

    def words(line):
        """What the shell is given on descriptor 8, without descriptions."""
        place = {"COMP_LINE": f"informed {line}", "COMP_POINT": str(len(line) + 9)}
        command = ["sh", "-c", f"exec {INFORMED} 8>&1 9>&2 1>/dev/null"]
        answers = answer(command, tmp_path, **given, **place)
        split = given.get("_ARGCOMPLETE_IFS", "\013")
        said = "\t" if shell == "fish" else ":"
        return {word.partition(said)[0] for word in answers.split(split)}

    assert words("sha") == {"shadow"}
    assert {"make", "plan", "info", "verify", "merge"} <= words("shadow ")
    assert words("audit --fi") == {"--fixed"}
    assert words("bound --steps ") == {""}
    assert words("bound --relation z") == {"zero_out"}
    assert words("audit none.py:train --data mine") == {"mine.py", "mine.npz"}
    assert {"digits", "mine.py"} < words("run --config ") - {"mine.npz"}


@pytest.mark.parametrize("shell", REAL)
def test_a_shell_completes(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} isn't installed")
    shown = answer([shell, "-c", REAL[shell]], tmp_path, HOME=str(tmp_path))
    assert shown.strip().rstrip(":") == "verify"
