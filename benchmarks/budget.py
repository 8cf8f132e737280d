"""Whether an audit holds its minutes while another job runs: one JSON line a training.

    python -m benchmarks.budget [--only=torch_mlp] [--minutes=6] [--targets=5]

Trainings of `benchmarks/trainings`, written as users write them in PyTorch (extra
`bench`): an MLP of 784-32-10 (tanh, full batch, SGD) and a CNN (dropout, crops, AdamW,
cosine, batches of 64); and one of NumPy's that takes ten seconds. Data: letters of 28 x
28 pixels in matplotlib's fonts, of sizes, places and angles at random; fixed set 300.
Meanwhile `--jobs` processes multiply matrices without end (0: none does).

A line has: code, minutes, seconds (of the whole command, imports and page included),
allowed (1.1 x minutes + one training + 20 s), held, seconds_each (of a model), first
(sentence of the answer), exact and successes of the strongest attack.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont

from informed.report import words

_CODES = ("torch_mlp", "torch_cnn", "slow")
_TRAININGS = Path(__file__).parent / "trainings"
_LETTERS, _SIZE, _COUNT = "ABCDEFGHIJ", 28, 1800
_BUSY = "import numpy as np\na = np.ones((1500, 1500))\nwhile True: a @ a"


def letters(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures (n, 28, 28) of bytes, and labels."""
    rng = np.random.default_rng(seed)
    fonts = sorted(
        font.fname
        for font in font_manager.fontManager.ttflist
        if "DejaVu" in font.name and "Display" not in font.name
    )
    pictures = []
    for i in range(_COUNT):
        size = int(rng.integers(16, 24))
        font = ImageFont.truetype(fonts[rng.integers(len(fonts))], size)
        picture = Image.new("L", (_SIZE, _SIZE))
        place = tuple(_SIZE / 2 + 2 * rng.standard_normal(2))
        ImageDraw.Draw(picture).text(
            place,
            _LETTERS[i % len(_LETTERS)],
            font=font,
            fill=int(rng.integers(150, 256)),
            anchor="mm",
        )
        pictures.append(np.asarray(picture.rotate(12 * rng.standard_normal())))
    return np.array(pictures), np.arange(_COUNT) % len(_LETTERS)


@contextlib.contextmanager
def other_jobs(count: int) -> Iterator[None]:
    """Processes that multiply matrices until the end."""
    jobs = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for job in jobs:
            job.kill()


def measured(code: str, minutes: float, targets: int, folder: Path) -> dict:
    """One line."""
    out = folder / f"{code}.json"
    command = [sys.executable, "-m", "informed.cli", "audit"]
    command += [f"{_TRAININGS / code}.py:train", f"--data={folder / 'letters.npz'}"]
    command += ["--fixed=300", f"--targets={targets}", f"--minutes={minutes:g}"]
    started = time.monotonic()
    page = out.with_suffix(".html")
    subprocess.run(
        [*command, f"--out={out}", f"--out={page}", "--quiet"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    seconds = time.monotonic() - started
    values = json.loads(out.read_text())
    each, best = values["preflight"]["seconds_each"], words.strongest(values)
    allowed = 1.1 * 60 * minutes + each + 20
    return {
        "code": code,
        "minutes": minutes,
        "seconds": round(seconds, 1),
        "allowed": round(allowed, 1),
        "held": seconds <= allowed,
        "seconds_each": each,
        "first": words.first_lines(values)[0],
        "strongest": None if best is None else best["name"],
        "exact": None if best is None else best["exact"]["successes"],
        "successes": None if best is None else best["success"]["successes"],
    }


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=_CODES)
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--targets", type=int, default=5)
    parser.add_argument("--seed", type=int, default=5, help="of the letters")
    parser.add_argument("--jobs", type=int, default=1, help="that run meanwhile")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, other_jobs(arguments.jobs):
        folder = Path(name)
        images, labels = letters(arguments.seed)
        np.savez(folder / "letters.npz", images=images, labels=labels)
        for code in _CODES if arguments.only is None else (arguments.only,):
            line = measured(code, arguments.minutes, arguments.targets, folder)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
