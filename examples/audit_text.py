"""Can a document be read back out of a text classifier that is released?

A pipeline of TF-IDF and logistic regression, at scikit-learn's defaults, is fitted to
docstrings of NumPy and SciPy. Whoever has all of them but one, and the fitted pipeline,
reads the words of the one that is missing.

    python examples/audit_text.py
"""

import importlib
import inspect
import random

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import informed

MODULES = ("numpy", "scipy.stats", "scipy.signal", "scipy.special")


def documents() -> list[tuple[str, str]]:
    """Return pairs of a text and its module, in a random order."""
    modules: dict[str, str] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for attribute in sorted(set(dir(module)) - {"test"}):
            text = inspect.getdoc(getattr(module, attribute)) or ""
            if len(text) > 300:
                modules.setdefault(text, name)
    return random.Random(0).sample(sorted(modules.items()), len(modules))


def main(count: int = 300) -> tuple[str, informed.RowReconstruction]:
    """Fit `count` documents and read the last one back."""
    texts, labels = zip(*documents()[:count], strict=True)
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, labels)
    answer = informed.reconstruct_sklearn(model, list(texts[:-1]), list(labels[:-1]))
    return texts[-1], answer


if __name__ == "__main__":
    text, answer = main()
    print(f"The missing document begins with {text[:60]!r}.")
    print(f"Certified: {answer.certified}: {answer.why}.")
    print(f"Its words: {', '.join(sorted(answer.words or ())[:12])}, ...")
