"""The types of the attack registry (`attacks.registry`).

A `Row` describes an attack, `Facts` are what decides whether it applies to a model, and
`Material` is what the attack is built from.
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
from shadow.views import EVERYTHING, View

if TYPE_CHECKING:
    from shadow.store import Store

PROTOCOLS = ("reconstruction", "membership", "transcript", "candidates")
SEES = ("nothing", "view", "weights", "answers", "estimator", "every noisy gradient")
# Share of the time that an attack may take whose row doesn't say how much.
SHARE = 0.05


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Facts:
    """What is known of a training before any attack on it; `Row.applies` asks it.

    Attributes:
      withheld: what isn't released of the models, of `SEES` -> why. An attack that
        sees it doesn't apply.
      deterministic: whether equal arguments of the training give equal weights.
      differentiable: whether derivatives through the training can be had from JAX.
      secret: whether the seed of the released models is told to nobody.
      targets: number of released models, each trained on one unknown record.
      returned: what training returned once, such as a fitted estimator; None: unknown.
    """

    withheld: Mapping[str, str] = dataclasses.field(default_factory=dict)
    deterministic: bool = True
    differentiable: bool = True
    secret: bool = False
    targets: int = 1
    returned: Any = None

    @property
    def why_not_again(self) -> str:
        """Why training can't be run again and compared; "" where it can."""
        if self.deterministic:
            return ""
        return "equal arguments give other weights; see what the pre-flight found"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Material:
    """What an attack may be prepared with; none of it depends on a release.

    Attributes:
      settings: of the attack, its row's dataclass; None: the defaults.
      shadows: the adversary's shadow models.
      view: what will be released of the models.
      workdir: takes what the attack prepares and keeps.
      key: the adversary's own randomness.
      progress: whether bars are shown.
      note: called from time to time while the attack prepares itself, so that an
        interrupted run knows how long it took.
      seconds_a_model: how long one training takes, measured; None: not measured. With
        it, and a limit, an attack that can try less or more fits its time.
      limit: seconds that the attack may take.
      table: the table whose rows the records are; None: records are pictures, or rows
        as they are.
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
        """Count trainings that fit into a share of the limit; None: unknown."""
        if self.seconds_a_model is None or self.limit == float("inf"):
            return None
        return int(share * self.limit / max(self.seconds_a_model, 1e-9))


class OneByOne:
    """An attack that takes one release after the other, so that time may cut it off."""

    def each(
        self, release: Any, knowledge: Knowledge, *, key: Array
    ) -> Iterator[Reconstruction]:
        """Attack one release after the other."""
        raise NotImplementedError

    def __call__(
        self, release: Any, knowledge: Knowledge, *, key: Array
    ) -> Reconstruction:
        """Attack all releases; see `each`."""
        return Reconstruction.joined(list(self.each(release, knowledge, key=key)))


class NotApplicableError(ValueError):
    """An attack finds, from what it is told, that it isn't for such models.

    That is no attack that failed: nothing follows from it.
    """


def _always(facts: Facts) -> str:
    return ""


@dataclasses.dataclass(frozen=True)
class NoSettings:
    """Of an attack that has none."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """What everything else knows of an attack.

    What needs the attack's module, `config`, `make` and `applies`, may be named as
    "module:attribute"; the module is then imported when it is first asked for.

    Attributes:
      name: how configurations and results call the attack.
      about: what the attack does, in a line.
      protocol: "reconstruction" (`threat.Attack`), "membership", "candidates" (weights
        alone: many candidates, no D_-), or "transcript" (private training).
      config: a frozen dataclass of the attack's settings.
      make: (settings, material) -> the attack.
      sees: "nothing"; "view" (whatever is released of theta); "weights" (all of theta);
        "answers" (scores for public records); "estimator" (the fitted
        estimator that training returned); "every noisy gradient".
      knows: what the attack needs to be told: fields of `threat.Knowledge`, or of
        `uninformed.rows.Architecture` for attacks on weights alone.
      uses: what the attack uses where it is told.
      gives: fields of what the attack returns.
      applies: (facts) -> "", or why the attack can't be played on such a training.
      remedy: what a developer does about the attack, in a phrase.
      share: of an audit's time, beside the shares of the other attacks; 0: audits don't
        play it.
      asked: whether an audit plays it only where it is asked for (`--reconn`).
      shadows: whether the attack is trained on shadow models.
      revision: number that grows when the attack would give something else; see
        `shadow.records`.
    """

    name: str
    about: str
    protocol: str = "reconstruction"
    config: type | str = NoSettings
    make: Callable[[Any, Material], Any] | str
    sees: str
    knows: tuple[str, ...]
    uses: tuple[str, ...] = ()
    gives: tuple[str, ...]
    applies: Callable[[Facts], str] | str = _always
    remedy: str = ""
    share: float = SHARE
    asked: bool = False
    shadows: bool = False
    revision: int = 1

    def __post_init__(self) -> None:
        checks.choice("protocol", self.protocol, PROTOCOLS)
        checks.choice("sees", self.sees, SEES)

    @property
    def audited(self) -> bool:
        """Whether audits play the attack."""
        return self.protocol == "reconstruction" and self.share > 0

    @property
    def title(self) -> str:
        """The name in words, as audits and pages print it."""
        return self.name.replace("_", " ")

    def why_not(self, facts: Facts) -> str:
        """Say why the attack can't be played on such a training; "" where it can."""
        return self._loaded("applies")(facts) or facts.withheld.get(self.sees, "")

    @property
    def settings(self) -> Any:
        """The class of the attack's settings, loaded."""
        return self._loaded("config")

    def attack(self, settings: Any, material: Material) -> Any:
        """Make the attack from its settings and what it is prepared with."""
        return self._loaded("make")(settings, material)

    def _loaded(self, field: str) -> Any:
        """Return a field's value, imported where the field names it."""
        value = getattr(self, field)
        return pkgutil.resolve_name(value) if isinstance(value, str) else value

    @property
    def threat_model(self) -> dict[str, Any]:
        """JSON-able; what `informed attacks --json` prints."""
        fields = ("name", "about", "protocol", "sees", "knows", "uses", "gives")
        values = {field: getattr(self, field) for field in fields}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
