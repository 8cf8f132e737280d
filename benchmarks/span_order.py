"""How much of the order of words a linear model over n-grams gives back.

    python -m benchmarks.span_order --targets=20 --seed=0

Texts as in `benchmarks.span`, public vocabulary, LogisticRegression at its defaults;
one JSON line for single words, pairs, triples.

exact      of the targets, read off the span
passages   of the words of exact targets, by count: the share that stands in passages of
           eight words or more that are in the text as they are
wrong      passages that aren't in the text
longest    words of the longest passage, the median of the targets
"""

import argparse
import json
import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from artefacts import span
from artefacts.passages import passages
from benchmarks.span_data import SEEDS, close, documents

_LONG = 8


def measured(most: int, known: int, args: Any) -> dict[str, Any]:
    """One line.

    Args:
      most: words of the longest n-gram.
    """
    every, labels = documents()
    vectoriser = TfidfVectorizer(ngram_range=(1, most)).fit(every)
    names, words = vectoriser.get_feature_names_out(), vectoriser.build_tokenizer()
    exact, wrong, there, total = 0, 0, 0, 0
    longest = []
    for target in range(args.targets):
        rng = np.random.default_rng(SEEDS * (args.seed + 1) + target)
        chosen = rng.permutation(len(every))[: known + 1]
        rows = sparse.csr_array(vectoriser.transform([every[i] for i in chosen]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LogisticRegression().fit(rows, labels[chosen])
        direction = span.read(model.coef_, rows[:-1])
        found = span.complete(direction, rows[:-1])
        if found is None or not close(found, rows[-1:].toarray()[0]):
            continue
        exact += 1
        text = " ".join(words(every[chosen[-1]].lower()))
        parts = passages(names[found.row > 0])
        right = [part for part in parts if f" {part} " in f" {text} "]
        wrong += len(parts) - len(right)
        lengths = [len(part.split()) for part in right]
        # A passage that stands there twice is one path.
        there += sum(each for each in lengths if each >= _LONG)
        total += len(text.split())
        longest.append(max(lengths, default=0))
    return {
        "words": most,
        "known": known,
        "dimensions": len(names),
        "targets": args.targets,
        "exact": exact,
        "passages": round(there / max(total, 1), 3),
        "wrong": wrong,
        "longest": float(np.median(longest)) if longest else 0.0,
    }


def main() -> None:
    """Print a line for each length of n-grams."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for most in (1, 2, 3):
        print(json.dumps(measured(most, 400, args)), flush=True)


if __name__ == "__main__":
    main()
