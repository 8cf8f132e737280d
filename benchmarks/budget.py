"""Whether an audit holds its minutes while other jobs run: one JSON line a training.

    python -m benchmarks.budget [--only=torch_mlp] [--minutes=4] [--targets=5]

Trainings of `benchmarks/trainings`, written as users write them in Flax (linen, nnx),
Equinox, scikit-learn, NumPy (with noise) and PyTorch (extra `bench`). Data: letters of
28 x 28 pixels in matplotlib's fonts, of sizes, places and angles at random;
fixed set 300. Meanwhile `--jobs` processes multiply matrices without end.

A line has: code, minutes, seconds (of the whole command, imports and page included),
held (at most 20 s more than --minutes), seconds_each (of a model), verdict and remedy
of the page, remedy_holds (whether its command prints the noise that it says), exact and
successes of the strongest attack.
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

_CODES = (
    "flax_linen", "flax_nnx", "equinox_mlp", "torch_mlp", "sklearn_mlp",
    "numpy_private",
)  # fmt: skip
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
    best, remedy = words.strongest(values), words.remedy(values)
    holds = None
    if remedy:
        least = values["bounds"]["calibrated"]
        again = [sys.executable, "-m", *least["command"].split(), "--json"]
        again[2] = "informed.cli"
        printed = subprocess.run(again, check=True, capture_output=True, text=True)
        sigma = json.loads(printed.stdout)["noise_multiplier"]
        holds = sigma == least["noise_multiplier"] and words.number_up(sigma) in remedy
    return {
        "code": code,
        "minutes": minutes,
        "seconds": round(seconds, 1),
        "held": seconds <= 60 * minutes + 20,
        "seconds_each": (values["preflight"] or {}).get("seconds_each"),
        "verdict": words.verdict(values),
        "remedy": remedy,
        "remedy_holds": holds,
        "strongest": None if best is None else best["name"],
        "exact": None if best is None else best["exact"]["successes"],
        "successes": None if best is None else best["success"]["successes"],
    }


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=_CODES, default=_CODES)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--targets", type=int, default=5)
    parser.add_argument("--seed", type=int, default=5, help="of the letters")
    parser.add_argument("--jobs", type=int, default=2, help="that run meanwhile")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, other_jobs(arguments.jobs):
        folder = Path(name)
        images, labels = letters(arguments.seed)
        np.savez(folder / "letters.npz", images=images, labels=labels)
        for code in arguments.only:
            line = measured(code, arguments.minutes, arguments.targets, folder)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
