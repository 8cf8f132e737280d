"""The command `informed`.

main     every command that takes a configuration
privacy  `informed bound` and `informed calibrate`
"""

from informed.cli.main import load_experiment, load_sweep, main

__all__ = ["load_experiment", "load_sweep", "main"]
