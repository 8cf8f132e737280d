"""Training of reconstructors in tests, and what an attack reads out."""

import dataclasses
import json

import reconn
from shadow import Knowledge, publish


def part(models, rows):
    arrays = {n: getattr(models, n)[rows] for n in ("weights", "images", "labels")}
    return dataclasses.replace(models, **arrays)


def train(models, method, **named):
    return reconn.train(models, method, progress=False, **named)


def read_out(attack, weights):
    return attack(publish(weights), Knowledge()).images


def history(workdir):
    """The lines that training has written."""
    return [json.loads(line) for line in (workdir / "metrics.jsonl").open()]
