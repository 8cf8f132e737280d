"""The command `informed`.

commands       every command by name, and the module that is loaded when it is asked for
running        `run` and its stages, `diagnose`, `sweep`, `attacks`
shadow         `shadow`: make, plan, look after shadow data sets
audit          `audit`, `compare`, `report`
privacy        `bound` and `calibrate`
artefact       `artefact`
experiments    `kkt`, `landscape`, `deletion`
configuration  configurations and their overrides, read
"""

from informed.cli.commands import main

__all__ = ["main"]
