"""`informed artefact model.skops --known known.csv --out page.html`."""

import argparse
import dataclasses
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from artefacts import Answer, Sanitised, files, inputs, page, sanitise
from artefacts.findings import ReconstructionImpossibleError
from artefacts.passages import passages
from informed.attacks.artefact_networks import reconstruct_sklearn as reconstruct
from informed.cli.commands import refuse_unknown
from shadow import checks
from shadow.files import finite


def add_arguments(command: argparse.ArgumentParser, name: str) -> None:
    """What the command takes."""
    command.add_argument("model", help="a skops file (never a pickle)")
    command.add_argument(
        "--known", required=True, help="CSV with a header: all training rows but one"
    )
    command.add_argument(
        "--label", help="its column of labels (default: the last; '' for none)"
    )
    command.add_argument(
        "--position", type=int, help="where the missing row stood, if that is known"
    )
    command.add_argument(
        "--gallery", help="CSV of rows that the missing one may be among, as --known"
    )
    command.add_argument("--out", help="write an HTML page here")


def execute(arguments: argparse.Namespace, rest: Sequence[str]) -> None:
    """Read, attack, strip, attack again, and say it.

    Raises: what `files`, `reconstruct` and `sanitise` raise.
    """
    refuse_unknown(rest)
    estimator = files.load_estimator(arguments.model)
    texts = _texts(estimator)
    rows, labels, names = files.load_table(
        arguments.known,
        arguments.label,
        texts=texts,
        label_is_text=_names_classes(estimator),
    )
    gallery = None
    if arguments.gallery:
        # A table of fewer columns than the model's is refused where it is read.
        by_name = {n for j, n in enumerate(names) if n in texts or j in texts}
        gallery = _gallery(arguments.gallery, names, by_name)
    rows, gallery = (_as_fitted(estimator, each, names) for each in (rows, gallery))
    names = tuple(rows.columns) if hasattr(rows, "columns") else names
    told = {"position": arguments.position, "gallery": gallery}
    answer = reconstruct(estimator, rows, labels, **told)
    stripped, after, failure = _again(estimator, rows, labels, told)
    removed = () if stripped is None else stripped.removed
    if arguments.out:
        title = Path(arguments.model).name
        text = page.page(title, _named(answer, names), removed, after, failure)
        Path(arguments.out).write_text(text, encoding="utf-8")
    if arguments.json:
        _print_json(arguments, answer, names, stripped, after, failure)
    else:
        _print(arguments, answer, stripped, after, failure)


def _print_json(
    arguments: argparse.Namespace,
    answer: Answer,
    names: tuple[str, ...],
    stripped: Sanitised | None,
    after: Answer | None,
    failure: str,
) -> None:
    """What is told, for machines."""
    removed = () if stripped is None else stripped.removed
    record = {
        "model": str(arguments.model),
        **summary(answer, names),
        "removed": [
            each.field for each in removed if not each.action.startswith("kept")
        ],
        "kept": [
            {"field": each.field, "why": each.why}
            for each in (() if stripped is None else stripped.kept)
        ],
        "after_sanitising": None if after is None else summary(after, names),
        "why_not_after_sanitising": failure or None,
        "predictions_stay": None if stripped is None else stripped.equal,
    }
    print(json.dumps(record))


def _print(
    arguments: argparse.Namespace,
    answer: Answer,
    stripped: Sanitised | None,
    after: Answer | None,
    failure: str,
) -> None:
    """What is told, as text."""
    print(page.verdict(answer))
    for line in answer.lines:
        print(f"  {line.field:<44}{page.how_exact(line):<28}{line.finding.tells}")
    for note in answer.notes:
        print(f"  note: {note}")
    print(f"After stripping: {failure if after is None else page.verdict(after)}")
    if stripped is not None and not stripped.equal:
        print(
            "  note: the stripped copy predicts otherwise in the last digits, or more"
        )
    for each in () if stripped is None else stripped.kept:
        print(f"  kept: {each.field:<38}{each.why}")
    if arguments.out:
        print(f"{'page':<28}{arguments.out}")


def _texts(estimator: Any) -> Collection[str | int]:
    """The features that were fitted as texts: by name, or by position without names."""
    names = getattr(estimator, "feature_names_in_", None)
    found = inputs.text_features(estimator)
    return found if names is None else {str(names[j]) for j in found}


def _names_classes(estimator: Any) -> bool:
    """Whether a classifier's classes are texts, as "7" may have been."""
    classes = getattr(estimator, "classes_", None)
    if not isinstance(classes, np.ndarray) or classes.dtype.kind not in "OU":
        return False
    return all(isinstance(name, str) for name in classes)


def _gallery(
    path: str, names: tuple[str, ...], texts: Collection[str | int]
) -> np.ndarray:
    """The gallery's rows: columns as the known rows', others are left out.

    Raises: FieldError: other columns.
    """
    every, _, found = files.load_table(path, "", field="gallery", texts=texts)
    missing = [name for name in names if name not in found]
    if missing:
        raise checks.FieldError(
            "gallery",
            f"Expected {{}} to have the columns of the known rows; there is no"
            f" {', '.join(missing)}.{checks.nearest(missing[0], found)}",
        )
    return every[:, [found.index(name) for name in names]]


def _as_fitted(estimator: Any, rows: Any, names: tuple[str, ...]) -> Any:
    """Rows as the estimator's `fit` got them: an array, a data frame, or texts.

    Raises: what `_framed` raises.
    """
    if rows is None:
        return None
    if hasattr(estimator, "feature_names_in_"):
        return _framed(estimator, rows, names)
    first = estimator.steps[0][1] if hasattr(estimator, "steps") else estimator
    if hasattr(first, "build_analyzer") and rows.shape[1] == 1:
        return [str(text) for text in rows[:, 0]]
    return rows


def _again(
    estimator: Any, rows: Any, labels: np.ndarray | None, told: dict[str, Any]
) -> tuple[Sanitised | None, Answer | None, str]:
    """The stripped copy and the attack on it, or why there is none."""
    try:
        stripped = sanitise(estimator, rows, known=rows)
    except Exception as error:
        # A file may hold any estimator, which may raise anything.
        first = checks.first_line(error)
        return None, None, f"it could not be stripped: {first}"
    try:
        after = reconstruct(stripped.estimator, rows, labels, **told)
    except ReconstructionImpossibleError as error:
        return stripped, None, str(error)
    except Exception as error:
        return stripped, None, f"attacking it stopped with {checks.named(error)}"
    return stripped, after, ""


def _framed(estimator: Any, rows: np.ndarray, names: tuple[str, ...]) -> Any:
    """A data frame, as the estimator was fitted to columns by name.

    Raises: FieldError: a column is missing; ImportError: pandas isn't installed.
    """
    wanted = estimator.feature_names_in_
    missing = [str(name) for name in wanted if name not in names]
    if missing:
        raise checks.FieldError(
            "known",
            f"Expected {{}} to have the columns that the model was fitted to; there is"
            f" no {', '.join(missing)}.{checks.nearest(missing[0], names)}",
        )
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "A model that was fitted to a data frame needs pandas: pip install"
            " 'informed-adversary[artefacts]'."
        ) from error
    frame = pandas.DataFrame(rows, columns=list(names))
    return frame[list(wanted)].infer_objects()


def _named(answer: Answer, names: tuple[str, ...]) -> Answer:
    """With the table's names of features."""
    if len(names) != len(answer.names):
        return answer
    return dataclasses.replace(answer, names=names)


def summary(answer: Answer, names: tuple[str, ...]) -> dict[str, Any]:
    """What is told, for machines; nothing infinite, nothing NaN."""
    return {
        "verdict": page.verdict(answer),
        "exact": answer.exact,
        "certified": answer.certified,
        "refuted": list(answer.refuted),
        "stored": list(answer.stored),
        "unread": list(answer.unread),
        "label": finite(answer.y),
        "words": None if answer.words is None else sorted(answer.words),
        "passages": passages(answer.words or ()),
        "named": None if answer.named is None else list(answer.named),
        "features": [
            {
                "name": names[j] if j < len(names) else str(j),
                "value": finite(answer.value[j]),
                "lower": finite(answer.lower[j]),
                "upper": finite(answer.upper[j]),
                "determined": bool(answer.determined[j]),
                "field": answer.sources[j],
            }
            for j in range(len(answer.determined))
        ],
        "fields": [
            {
                "field": line.field,
                "tells": line.finding.tells,
                "how_exact": page.how_exact(line),
                "certified": line.finding.certified,
                "needed": line.finding.needed,
            }
            for line in answer.lines
        ],
        "contradictions": list(answer.contradictions),
        "notes": list(answer.notes),
    }
