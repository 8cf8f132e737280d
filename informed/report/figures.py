"""Draw the figures of a report's HTML page: bounds as inline SVG, images as thumbnails.

`html_page` calls `bound` and `thumbnail`, and puts the text that they return in the
page; no file is written. Text and axes take the colour of the page's text, so one page
works in light and dark. Series differ by marker as well as by colour; every colour has
a contrast of at least 3 to both backgrounds.
"""

import base64
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import matplotlib.figure
import numpy as np
from matplotlib import ticker
from PIL import Image

# Placeholder colour, replaced by the colour of the page's text.
_INK = "#010203"
COLOURS = ("#2f7fd6", "#d9661f", "#1f9a5f")
_STYLE: Any = {
    "svg.fonttype": "none",
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "legend.frameon": False,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "informed",
}
# Pixels of the longer side of a picture.
_LARGEST = 64
# Width for a tick label as a share of the axis; four digits take 0.06.
_LABEL_WIDTH = 0.08
Values = Mapping[str, Any]


def _svg(figure: matplotlib.figure.Figure, alt: str) -> str:
    """Return a figure as the SVG element of a page; `alt` is a sentence."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(_INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    for side in ("width", "height"):
        text = re.sub(rf'(<svg[^>]*?) {side}="[^"]*"', r"\1", text, count=1)
    label = alt.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def _labels(places: Sequence[float]) -> list[str]:
    """Return labels of ticks on a logarithmic axis; "" where labels would touch."""
    logs = np.log10(places)
    apart = _LABEL_WIDTH * (logs.max() - logs.min())
    labels = [""] * len(places)
    last = -np.inf
    for i in np.argsort(logs):
        if logs[i] - last >= apart:
            labels[i], last = f"{places[i]:g}", logs[i]
    return labels


@matplotlib.rc_context(_STYLE)
def bound(values: Values) -> str:
    """Return an SVG of success and its bound by noise, from a report's bounds."""
    rows = values["rows"]
    figure = matplotlib.figure.Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    sigmas = [row["noise_multiplier"] for row in rows]
    rates = [row["success"] for row in rows]
    ends = ("rate", "low", "high")
    middle, low, high = np.array([[rate[end] for rate in rates] for end in ends])
    axes.plot(sigmas, [row["bound"] for row in rows], "s-", color=COLOURS[1],
              label="bound on any attack", markerfacecolor="none")  # fmt: skip
    axes.errorbar(sigmas, middle, yerr=[middle - low, high - middle], fmt="o",
                  color=COLOURS[0], capsize=4, label="attack, 95 %")  # fmt: skip
    axes.axhline(values["kappa"], color=_INK, linestyle=":", linewidth=1.2,
                 label="guessing")  # fmt: skip
    if any(row["accuracy"] is not None for row in rows):
        axes.plot(sigmas, [row["accuracy"] for row in rows], "D--", linewidth=1,
                  color=COLOURS[2], label="accuracy of the model")  # fmt: skip
    axes.set_xscale("log")
    axes.set_xticks(sigmas, _labels(sigmas))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.set_ylim(-0.02, 1.03)
    axes.set(xlabel="noise multiplier of training", ylabel="share")
    figure.legend(loc="outside upper center", ncols=2, fontsize=9)
    alt = (
        f"How often one of {values['candidates']} candidates is named, by the attack"
        " and at most by any attack, against the noise multiplier. The same numbers are"
        " in the table."
    )
    return _svg(figure, alt)


def thumbnail(image: np.ndarray) -> str:
    """Return an image (height, width, channels) in [0, 1] as the source of an <img>."""
    pixels = np.clip(np.nan_to_num(image), 0, 1)
    pixels = (pixels * 255).round().astype(np.uint8)
    if pixels.shape[-1] not in (1, 3):
        pixels = pixels[..., :1]
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    if max(picture.size) > _LARGEST:
        picture.thumbnail((_LARGEST, _LARGEST))
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
