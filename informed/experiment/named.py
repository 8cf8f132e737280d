"""The attacks of a run as its configuration names them: `config.attacks.NAME`.

Each names a row of `attacks.registry`, with settings and a number of targets, so a run
can play one attack with several settings. `settings` builds them from a configuration,
and configuration files call `add_attack`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ml_collections import config_dict

from informed.attacks import registry
from informed.attacks.attack_row import Row
from informed.experiment.defaults import defaults
from informed.experiment.reconn_settings import ReconnConfig
from shadow import checks, views
from shadow.known import UNUSED

_OWN = ("type", "targets", "known")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NamedAttack:
    """One attack of a run.

    Attributes:
      type: a name of `informed.attacks.registry`.
      targets: number of released models to attack, from the first on; None: all of
        them; 0: none, the attack is left out.
      known: number of rows of pixels, from the top, that the adversary knows of every
        target (attribute inference).
      settings: the attack's settings, its row's dataclass.
    """

    type: str
    targets: int | None = None
    known: int = 0
    settings: Any

    def __post_init__(self) -> None:
        if self.targets is not None:
            checks.integer("targets", self.targets, 0)
        checks.integer("known", self.known, 0)
        kind = self.row.settings
        fits = isinstance(self.settings, kind)
        checks.require("settings", self.settings, fits, f"to be a {kind.__name__}")
        if self.known and "known" not in self.row.uses:
            raise checks.FieldError("known", UNUSED.format(self.type))

    @classmethod
    def of(
        cls, type: str, targets: int | None = None, known: int = 0, **settings: Any
    ) -> Any:
        """Build an attack with default settings, except those given."""
        made = registry.find(type).settings(**settings)
        return cls(type=type, targets=targets, known=known, settings=made)

    @property
    def row(self) -> Row:
        """The attack's row of the registry."""
        return registry.find(self.type)

    @property
    def revisions(self) -> dict[str, int | str]:
        """Revisions of the components that determine the attack's results."""
        own: Mapping[str, int | str] = {self.row.name: self.row.version}
        if isinstance(self.settings, ReconnConfig):
            trained = self.settings.method().revisions
            # A user's `make` has a version; ours is covered by the method's revisions.
            own = trained if self.row.make == registry.LEARNED else {**own, **trained}
        return {"view": views.REVISION, **own}

    @property
    def values(self) -> dict[str, Any]:
        """Return all fields in one flat dict, as in a configuration; JSON-able."""
        own = {"type": self.type, "targets": self.targets}
        if self.known:  # left out if 0, so that older runs stay valid
            own["known"] = self.known
        return own | dataclasses.asdict(self.settings)

    def defaults(self) -> config_dict.ConfigDict:
        """Return all fields as a flat ConfigDict, for configuration files."""
        values = defaults(self.settings)
        with values.unlocked():
            values.type, values.known = self.type, self.known
            values.targets = (
                config_dict.placeholder(int) if self.targets is None else self.targets
            )
        return values

    @classmethod
    def from_values(cls, values: Mapping[str, Any], where: str) -> "NamedAttack":
        """Build from `type`, `targets` and the attack's own fields, in one flat dict.

        Raises: ValueError: the type is missing or unknown, or a field is unknown.
        """
        if "type" not in values:
            raise ValueError(
                f"{where}.type is missing. Attacks: {', '.join(registry.rows())}."
            )
        with checks.under(where):
            row = registry.find(values["type"])
        own = {name: values[name] for name in _OWN if name in values}
        rest = {name: value for name, value in values.items() if name not in _OWN}
        if set(rest) == {"settings"}:  # as `dataclasses.asdict` writes it
            rest = rest["settings"]
        settings = checks.build(row.settings, rest, where)
        with checks.under(where):
            return cls(**own, settings=settings)


def add_attack(
    config: config_dict.ConfigDict, name: str, type: str, **settings: Any
) -> None:
    """Add an attack to a configuration; for configuration files.

    Args:
      config: the configuration of an experiment.
      name: the attack's results are `results["attacks"][name]`.
      type: a name of `informed.attacks.registry`.
      settings: fields of the attack that deviate from its defaults, and `targets`.
    Raises: ValueError: an unknown type.
    """
    try:
        with checks.under(f"config.attacks.{name}"):
            values = NamedAttack.of(type).defaults()
    except checks.FieldError as error:  # configuration files expect plain errors
        raise ValueError(str(error)) from error
    with values.unlocked(), config.unlocked():
        values.update(settings)
        config.attacks[name] = values
