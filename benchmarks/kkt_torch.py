"""The KKT attack on weights that PyTorch trained, beside our victim's: one JSON line.

    python -m benchmarks.kkt_torch --points=20 --workdir=runs/kkt-torch
    python -m benchmarks.kkt_images --rows=mnist --points=20      ours, the same images

`train` is PyTorch alone: a network 784-256-256-1 of ReLUs without biases, first layer
starting at 1e-4, on MNIST's odd and even digits less their mean. Descent of the
logistic loss until all images are classified, then of log sum exp(-margin) with weights
of constant norm. The weights go through a file and `informed kkt --weights`, with twice
as many candidates as points and four runs of 20,000 steps.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from uninformed.kkt import training_images
from uninformed.kkt.training_images import PointsConfig

_FIRST, _NORM, _RATE = 1e-4, 6.0, 0.5


def train(points: np.ndarray, labels: np.ndarray, steps: int, seed: int) -> nn.Module:
    """Train as a user of PyTorch would who wants a large margin."""
    torch.manual_seed(seed)
    x = torch.as_tensor(points, dtype=torch.float32)
    y = torch.as_tensor(2.0 * labels - 1.0, dtype=torch.float32)
    model = nn.Sequential(
        nn.Linear(x.shape[1], 256, bias=False),
        nn.ReLU(),
        nn.Linear(256, 256, bias=False),
        nn.ReLU(),
        nn.Linear(256, 1, bias=False),
    )
    with torch.no_grad():
        model[0].weight.mul_(_FIRST / model[0].weight.std())
    parameters = list(model.parameters())
    fitting = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    for _ in range(20_000):
        fitting.zero_grad()
        margins = y * model(x).squeeze(1)
        nn.functional.softplus(-margins).mean().backward()
        fitting.step()
        if margins.min() > 3:
            break
    for step in range(steps):
        margins = y * model(x).squeeze(1)
        slopes = torch.autograd.grad(torch.logsumexp(-margins, 0), parameters)
        with torch.no_grad():
            length = torch.sqrt(sum((slope**2).sum() for slope in slopes))
            rate = _RATE * (1 - step / steps) * _NORM / (1 + length)
            for parameter, slope in zip(parameters, slopes, strict=True):
                parameter.sub_(1e-2 * rate * slope)
            norm = torch.sqrt(sum((p**2).sum() for p in parameters))
            for parameter in parameters:
                parameter.mul_(_NORM / norm)
    return model


def main() -> None:
    """Train, write, attack, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workdir", type=Path, default=Path("runs/kkt-torch"))
    arguments = parser.parse_args()
    setting = f"{arguments.points}-{arguments.steps}-{arguments.seed}"
    arguments.workdir /= setting
    arguments.workdir.mkdir(parents=True, exist_ok=True)
    chosen = training_images.load(PointsConfig(points=arguments.points, offset=100))
    weights = arguments.workdir / "victim.npz"
    if not weights.exists():
        model = train(chosen.points, chosen.labels, arguments.steps, arguments.seed)
        np.savez(weights, **{n: w.numpy() for n, w in model.state_dict().items()})
    data = arguments.workdir / "mine.npz"
    np.savez(
        data,
        images=np.concatenate([chosen.images, chosen.held_out]),
        labels=np.concatenate([chosen.labels, chosen.held_out_labels]),
        mean=chosen.mean,
    )
    command = [sys.executable, "-m", "informed.cli", "kkt"]
    command += ["--config=configs/kkt.py:mnist"]
    command += [f"--weights={weights}", f"--data={data}"]
    command += [f"--workdir={arguments.workdir}/attack"]
    command += [f"--config.data.points={arguments.points}"]
    command += [f"--config.attack.candidates={2 * arguments.points}"]
    subprocess.run(command, check=True, stdout=sys.stderr)
    results = json.loads((arguments.workdir / "attack" / "results.json").read_text())
    print(json.dumps({"points": arguments.points, "seed": arguments.seed, **results}))


if __name__ == "__main__":
    main()
