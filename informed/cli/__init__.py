"""The command `informed`.

commands       every command that takes a configuration
configuration  configurations and their overrides, read
privacy        `informed bound` and `informed calibrate`
shadow         `informed shadow`: make, plan, look after shadow data sets
"""

from informed.cli.commands import main
from informed.cli.configuration import load_experiment, load_sweep

__all__ = ["load_experiment", "load_sweep", "main"]
