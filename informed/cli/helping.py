"""What `informed --help` and `informed COMMAND --help` say beside the arguments."""

import argparse

STORY = """\
Can one training record be read back out of a released model?

Your own training, one page:
  informed audit mine.py:train --data mine.npz --check    seconds: what applies
  informed audit mine.py:train --data mine.npz --minutes 30 --out audit.html
  informed compare audit.json                             attacks side by side

The attacks of the papers, in stages that go on where they were interrupted:
  informed run --config=configs/digits.py --workdir=runs/digits
  informed report runs/digits                             its page

How much noise stops it:
  informed bound --noise-multiplier 1 --steps 100 --kappa 1e-3
  informed calibrate --gamma 0.01 --steps 100 --kappa 1e-3
"""
END = """\
informed COMMAND --help has an example. Exit codes: 0 done, 2 an error in one line,
3 the audit's pre-flight found what has to be mended first, 4 --max-success isn't
shown to hold, 130 interrupted.
"""
_CONFIGURED = """\
Every field of a configuration can be set: --config.shadow.count=20000.
Finished stages do nothing, interrupted ones go on where they were.
"""
_STAGE = "informed {} --config=configs/digits.py --workdir=runs/digits"
_EXAMPLES = {
    "audit": (
        "informed audit examples/audit_sklearn.py:train --data digits --fixed 100 \\\n"
        "      --targets 10 --minutes 10 --out audit.html --out audit.json"
    ),
    "compare": "informed compare audit.json",
    "report": "informed report runs/digits --out digits.html",
    "attacks": "informed attacks --json",
    "attack": _STAGE.format("attack") + " --only reconn",
    "bound": "informed bound --noise-multiplier 1 --steps 100 --kappa 1e-3",
    "calibrate": "informed calibrate --gamma 0.01 --steps 100 --kappa 1e-3",
    "kkt": "informed kkt --config=configs/kkt.py --workdir=runs/kkt",
    "landscape": "informed landscape --config=configs/landscape.py --workdir=runs/ends",
    "shadow": (
        "informed shadow plan --config=configs/mnist.py --workdir=runs/mnist\n"
        "  informed shadow --config=configs/mnist.py --workdir=runs/mnist"
    ),
}


def formatter(prog: str) -> argparse.HelpFormatter:
    """Format the help with one line a command."""
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=15, width=96)


def epilog(command: str) -> str:
    """Return what the help of a command ends with: an example."""
    example = _EXAMPLES.get(command, _STAGE.format(command))
    more = f"\n{_CONFIGURED}" if "--config=" in example else ""
    return f"Example:\n  {example}\n{more}"
