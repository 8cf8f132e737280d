"""The command `informed`.

commands  every command that takes a configuration
privacy   `informed bound` and `informed calibrate`
"""

from informed.cli.commands import load_experiment, load_sweep, main

__all__ = ["load_experiment", "load_sweep", "main"]
