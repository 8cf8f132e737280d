"""Can a document be read back out of a text classifier that is shipped?

A pipeline of TF-IDF and logistic regression, at scikit-learn's defaults, is fitted to
docstrings of NumPy and SciPy. Whoever has all of them but one, and the fitted pipeline,
reads the words of the one that is missing; they are on the page.

    python examples/audit_text.py
"""

import importlib
import inspect
import random
from pathlib import Path

from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import informed
from artefacts import page

MODULES = ("numpy", "scipy.stats", "scipy.signal", "scipy.special")


def documents() -> list[tuple[str, str]]:
    """(text, its module), in an order that says nothing."""
    found: dict[str, str] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for attribute in sorted(set(dir(module)) - {"test"}):
            text = inspect.getdoc(getattr(module, attribute)) or ""
            if len(text) > 300:
                found.setdefault(text, name)
    return random.Random(0).sample(sorted(found.items()), len(found))


def main(count: int = 300, out: str = "audit_text.html", *, buckets: int = 0):
    """Fit, read the last document back, write the page.

    Args:
      count: of documents.
      out: takes the page.
      buckets: words are hashed into so many, so that no vocabulary is stored; 0: not.
    """
    texts, labels = zip(*documents()[:count], strict=True)
    hashed = HashingVectorizer(n_features=buckets or 1, alternate_sign=False)
    words = hashed if buckets else TfidfVectorizer()
    model = make_pipeline(words, LogisticRegression()).fit(texts, labels)
    answer = informed.reconstruct_sklearn(model, list(texts[:-1]), list(labels[:-1]))
    Path(out).write_text(page.page("text classifier", answer), encoding="utf-8")
    return texts[-1], answer


if __name__ == "__main__":
    text, answer = main()
    print(page.verdict(answer))
    print(f"The missing document begins with {text[:60]!r}.")
    print(f"Its words, as read: {', '.join(sorted(answer.words or ())[:12])}, ...")
