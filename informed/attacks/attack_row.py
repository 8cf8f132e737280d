"""Types by which attacks are listed, chosen and built.

A `Row` of `registry` describes an attack: its threat model, when it applies and how to
build it. `Facts` about training decide whether it applies. An attack is built from
`Material`, such as shadow models. `informed.play`, runs and audits read rows; attacks
import these types too, so they aren't in `registry`.
"""

import dataclasses
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtyping import Array

from shadow import checks
from shadow.models import ShadowModels
from shadow.tables import Table
from shadow.threat import Knowledge, Reconstruction
from shadow.training import versions
from shadow.views import EVERYTHING, View

if TYPE_CHECKING:
    from shadow.store import Store

SEES = ("nothing", "view", "weights", "answers", "estimator")
# Share of an audit's time for an attack whose row names none.
SHARE = 0.05


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Facts:
    """Facts about a training function, by which `Row.applies` accepts or refuses it.

    Attributes:
      withheld: members of `SEES` -> why they aren't released; "" or absent: they are.
        Attacks that see what isn't released don't apply.
      deterministic: whether equal arguments give equal weights.
      secret: whether the seed of the released models is unknown to the adversary.
      returned: one result of training, such as a fitted estimator; None: unknown.
      known: numbers of rows and of features of D_-; None: unknown.
    """

    withheld: Mapping[str, str] = dataclasses.field(default_factory=dict)
    deterministic: bool = True
    secret: bool = False
    returned: Any = None
    known: tuple[int, int] | None = None

    @property
    def why_not_again(self) -> str:
        """Why the adversary can't retrain and compare weights; "" if they can."""
        if self.deterministic:
            return ""
        return "equal arguments give different weights; see the pre-flight's lines"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Material:
    """What an attack may be built from; none of it depends on a release.

    Attributes:
      settings: the attack's settings, its row's dataclass; None: the defaults.
      shadows: the adversary's shadow models.
      view: what will be released of the models.
      workdir: folder for files that the attack prepares and keeps.
      key: the adversary's own randomness.
      progress: whether to show progress bars.
      note: called repeatedly while the attack is prepared, so that an interrupted run
        knows how long it took.
      seconds_a_model: measured seconds per training; None: not measured. With it and a
        limit, attacks of adjustable effort fit their time.
      limit: seconds that the attack may take.
      table: the table that records are rows of; None: records are images or plain
        feature vectors.
    """

    settings: Any = None
    shadows: "ShadowModels | Store | None" = None
    view: View = EVERYTHING
    workdir: Path
    key: Array
    progress: bool = False
    note: Callable[[], None] | None = None
    seconds_a_model: float | None = None
    limit: float = float("inf")
    table: Table | None = None

    def affordable(self, share: float = 1.0) -> int | None:
        """Return how many trainings fit into a share of the limit; None: unknown."""
        if self.seconds_a_model is None or self.limit == float("inf"):
            return None
        return int(share * self.limit / max(self.seconds_a_model, 1e-9))


class OneByOne:
    """Base class of attacks that `informed.play` can interrupt between two releases."""

    def each(
        self, release: Any, knowledge: Knowledge, *, key: Array
    ) -> Iterator[Reconstruction]:
        """Yield the reconstruction of one release after the other."""
        raise NotImplementedError

    def __call__(
        self, release: Any, knowledge: Knowledge, *, key: Array
    ) -> Reconstruction:
        """Return the reconstruction of all releases; see `each`."""
        return Reconstruction.joined(list(self.each(release, knowledge, key=key)))


class NotApplicableError(ValueError):
    """The attack doesn't apply to such models, which says nothing on their safety."""


@dataclasses.dataclass(frozen=True)
class NoSettings:
    """Settings of an attack that has none."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """An attack's entry in the registry: threat model, settings and constructor.

    `config`, `make` and `applies` may be strings "module:attribute"; the module is then
    imported on first use.

    Attributes:
      name: name of the attack in configurations and results.
      about: what the attack does, in a line.
      config: a frozen dataclass of the attack's settings.
      make: (settings, material) -> the attack, a `threat.Attack`.
      sees: "nothing"; "view" (whatever is released of theta); "weights" (all of theta);
        "answers" (scores for public records); "estimator" (the fitted
        estimator that training returned).
      knows: what the adversary must know: fields of `threat.Knowledge`.
      uses: optional knowledge that the attack uses if available.
      gives: fields of the attack's result.
      applies: (facts) -> "", or why the attack can't be played on such a training.
      remedy: what a developer can do against the attack, in a phrase.
      share: share of an audit's time, relative to the other attacks; 0: audits don't
        play it.
      asked: whether audits play it only on request (`--reconn`).
      shadows: whether building the attack trains it on shadow models.
      revision: incremented when the attack's results change. Where `make` is a
        function, its file is hashed too (`version`), so only for other files.
    """

    name: str
    about: str
    config: type | str = NoSettings
    make: Callable[[Any, Material], Any] | str
    sees: str
    knows: tuple[str, ...]
    uses: tuple[str, ...] = ()
    gives: tuple[str, ...]
    applies: Callable[[Facts], str] | str = lambda facts: ""
    remedy: str = ""
    share: float = SHARE
    asked: bool = False
    shadows: bool = False
    revision: int = 1

    def __post_init__(self) -> None:
        checks.choice("sees", self.sees, SEES)
        for name, cls in (("knows", Knowledge), ("gives", Reconstruction)):
            allowed = [field.name for field in dataclasses.fields(cls)]
            for value in getattr(self, name):
                checks.choice(name, value, allowed)

    @property
    def version(self) -> int | str:
        """The revision, and the hash of the file with `make` if that is a function.

        If it holds values that can't be hashed, the revision alone.
        """
        if isinstance(self.make, str):
            return self.revision
        try:
            return f"{self.revision}, file {versions.source_hash(self.make)[:12]}"
        except ValueError:
            return self.revision

    @property
    def audited(self) -> bool:
        """Whether audits play the attack, some only on request (`asked`)."""
        return self.share > 0

    @property
    def title(self) -> str:
        """The name in words, as audits and pages print it."""
        return self.name.replace("_", " ")

    def why_not(self, facts: Facts) -> str:
        """Return why the attack can't be played on such a training; "" if it can."""
        return self._loaded("applies")(facts) or facts.withheld.get(self.sees, "")

    @property
    def settings(self) -> Any:
        """The class of the attack's settings, loaded."""
        return self._loaded("config")

    def attack(self, settings: Any, material: Material) -> Any:
        """Build the attack from its settings and material."""
        return self._loaded("make")(settings, material)

    def _loaded(self, field: str) -> Any:
        """Return a field's value, importing "module:attribute" strings."""
        value = getattr(self, field)
        return pkgutil.resolve_name(value) if isinstance(value, str) else value

    @property
    def threat_model(self) -> dict[str, Any]:
        """The row as JSON values, as `informed attacks --json` prints it."""
        fields = ("name", "about", "sees", "knows", "uses", "gives")
        values = {field: getattr(self, field) for field in fields}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
