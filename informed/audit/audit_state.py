"""The state of an audit: what is done so far, as a report at any moment.

The steps of `auditing` fill it in. Once data are loaded, any thread can make a report
at any time, which says what is missing, as the watchdog of `cli.audit_command` does
when the time runs out. A report compares guesses with the true records, which no attack
sees. Finished parts are also kept in the folder of the `Ledger`, if it has one.
"""

import dataclasses
import time
from typing import Any

import numpy as np

from informed.attacks.attack_row import Row
from informed.audit import ranked_records, timetable, trials
from informed.audit.findings import Preflight
from informed.audit.ledger import Ledger
from informed.audit.subject import Subject
from informed.audit.trials import Models
from informed.metrics import judging
from informed.play import Trial, blank
from informed.report import document
from informed.report.document import Report
from shadow import files, records

# The first attacks on the page. Inversion is exact for any training.
_FIRST = ("inversion", "refined", "kernel", "black box")
_UNTRIED = {"rows": [], "why_not": "no time for it"}


@dataclasses.dataclass(kw_only=True, eq=False)
class AuditState:
    """The state of one audit.

    Attributes:
      ledger: keeps what is done for an audit that goes on later.
      started: when it began, on the clock of `time.monotonic`.
      settings: the `auditing.AuditConfig`.
      subject: the training function with its data; None: not loaded yet.
      checked: the pre-flight; None: not finished yet.
      models: released models, and shadow models; None: not trained yet.
      trials: attacks that were played, or can't be, by name.
      playing: the name of the attack that is being played; "": none.
      before: seconds until the first attack began.
      bounds: what is known of noise and its bounds.
      too_short: why the time isn't enough for any attack, and enough minutes.
    """

    ledger: Ledger = dataclasses.field(default_factory=Ledger)
    started: float = dataclasses.field(default_factory=time.monotonic)
    settings: Any = None
    subject: Subject | None = None
    checked: Preflight | None = None
    models: Models | None = None
    trials: dict[str, Trial] = dataclasses.field(default_factory=dict)
    playing: str = ""
    before: float = 0.0
    bounds: dict[str, Any] = dataclasses.field(default_factory=lambda: dict(_UNTRIED))
    too_short: tuple[str, float] | None = None

    def record(self, trial: Trial) -> None:
        """Take an attack's trial so far; keep it once a target is finished."""
        self.trials[trial.name] = trial
        if trial.finished is not None and trial.finished.any():
            versions = {row.title: row.version for row in timetable.rows()}
            self.ledger.keep_trial(trial, versions[trial.name])

    def record_bounds(self, bounds: dict[str, Any]) -> None:
        """Take what is known of noise and its bounds; write it to the ledger."""
        self.bounds = bounds
        self.ledger.keep("noise", {}, bounds=files.finite(bounds))

    @property
    def complete(self) -> bool:
        """Whether everything that applies was finished."""
        late = any(trial.late for trial in self._all_trials())
        return not late and "no time" not in self.bounds["why_not"]

    def report(self) -> Report:
        """Return a report of what is done so far.

        Raises: RuntimeError: the data aren't loaded yet.
        """
        subject, checked, models = self.subject, self.checked, self.models
        if subject is None:
            raise RuntimeError("There is no page: the data weren't loaded in the time.")
        played = self._all_trials()
        targets = subject.split.test if models is None else models.targets
        pool = subject.fixed.joined(subject.split.shadow, subject.held_out)
        table = subject.table
        groups = None if table is None else table.groups
        baselines = judging.baselines(targets, pool, groups=groups)
        verdicts = [judging.verdict(t, targets, pool, baselines) for t in played]
        least = judging.thresholds(baselines)
        attacks = [judging.judge(t, targets, pool, baselines) for t in played]
        ids = subject.split.test_indices
        rows, order = ranked_records.rank(targets, ids, played, verdicts, least)
        pictures = ranked_records.pictures(order, targets, played, baselines)
        shadows = None if models is None else models.shadows
        contract = subject.contract
        values = {
            "schema": document.VERSION,
            "kind": "audit",
            "subject": {
                "train": contract.name,
                "version": contract.version,
                "takes": contract.takes,
                "engine": subject.engine,
                "deterministic": subject.deterministic,
                "data": subject.fixed.name,
                "kind": "table" if table is not None else "images",
                "shape": list(subject.fixed.image_shape),
                "columns": None if table is None else list(table.names),
                "classes": subject.fixed.num_classes,
                "fixed": len(subject.fixed),
                "public": len(subject.split.shadow) + len(subject.held_out),
                "targets": 0 if models is None else len(targets),
                "params": 0 if checked is None else checked.params,
                "arrays": []
                if checked is None
                else [[name, list(shape)] for name, shape in checked.arrays],
                "seconds_a_model": None if checked is None else checked.seconds_a_model,
                "shadow_models": 0 if shadows is None else len(shadows),
                "accuracy": None
                if models is None
                else subject.accuracy(models.released),
            },
            "preflight": None if checked is None else checked.values,
            "baselines": [judging.summary(baseline) for baseline in baselines],
            "attacks": [self._with_advice(row) for row in attacks],
            "enough_minutes": self._enough(attacks),
            "records": rows if models is not None else [],
            "bounds": self.bounds,
            "configuration": dataclasses.asdict(self.settings),
            "again": "",
            "versions": {**records.versions(), **records.packages()},
            "seconds": round(time.monotonic() - self.started, 1),
        }
        return Report(
            values=files.finite(values), pictures={**pictures, "table": table}
        )

    def _all_trials(self) -> list[Trial]:
        """Return a trial for every attack, in the order of the page."""
        every = []
        for row in timetable.rows():
            if not row.asked or self.settings.reconn:
                trial = self.trials.get(row.title)
                if trial is None or row.title == self.playing:
                    trial = self._unfinished(row, trial)
                every.append(trial)
        names = (*_FIRST, *(trial.name for trial in every))
        return sorted(every, key=lambda trial: names.index(trial.name))

    def _unfinished(self, row: Row, trial: Trial | None) -> Trial:
        """Return the trial of an attack that is being played, or wasn't begun."""
        if trial is not None:  # between two of its targets
            done = 0 if trial.finished is None else int(np.sum(trial.finished))
            why = f"out of time at target {done + 1} of {trial.planned}"
            needs = trial.seconds / max(done, 1)
            return dataclasses.replace(trial, why_not=why, needs=needs, late=True)
        why = "the time was over before it was begun"
        if row.title == self.playing:
            why = "it didn't come back in its time, and was abandoned"
        if self.too_short is not None:
            why = self.too_short[0]
        assert self.subject is not None
        rows = self.subject.split.test if self.models is None else self.models.released
        if self.checked is None:
            trial = blank(row, sees=row.sees, secret=False, planned=len(rows))
            why = "the pre-flight wasn't finished"
            return dataclasses.replace(trial, why_not=why, late=True)
        return trials.untried(row, self.checked, len(rows), why_not=why, late=True)

    def _with_advice(self, row: dict[str, Any]) -> dict[str, Any]:
        """Add the minutes in which a judged attack would have finished its records."""
        needs, minutes = row["needs_seconds"], None
        if needs is not None and self.checked is not None:
            minutes = timetable.advised(
                needs,
                row["planned"],
                secret=self.checked.facts.secret,
                before=self.before,
                given=self.settings.minutes,
            )
        return row | {"needs_minutes": minutes}

    def _enough(self, attacks: list[dict[str, Any]]) -> int | None:
        """Return minutes in which everything would be finished; None: it is."""
        given = self.settings.minutes
        if self.too_short is not None:
            return timetable.more_than(given, self.too_short[1])
        if self.complete:
            return None
        rows = [self._with_advice(row)["needs_minutes"] for row in attacks]
        return max(
            [m for m in rows if m], default=timetable.more_than(given, 2 * given)
        )
