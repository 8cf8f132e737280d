"""What would make a later stage of a run fail, found before the first model is trained.

Dataclasses check each field for itself when they are made; here are the checks between
groups of fields, and of fields against the data and the machine.
"""

from informed.runs.experiment import Experiment
from reconn import perceptual
from reconn.config import ReconnConfig
from shadow import checks, victims
from shadow.data import Examples
from shadow.victims import Victim


def victim(experiment: Experiment, pool: Examples) -> Victim:
    """The victim of an experiment, for the images of a data set.

    Raises: FieldError: the images are too small for it.
    """
    with checks.under("config.victim"):
        return victims.build(
            experiment.victim,
            image_shape=pool.image_shape,
            num_classes=pool.num_classes,
        )


def require(experiment: Experiment, victim: Victim) -> None:
    """Raise one clear line if any stage of the experiment couldn't be run.

    Raises:
      ValueError: a number that another one doesn't allow, a layer that the victim
        hasn't, widths that don't fit the images.
      ImportError: an extra that isn't installed; names it.
    """
    shadow, reconn, view = experiment.shadow, experiment.reconn, experiment.view
    if shadow.count < 2:
        raise checks.FieldError(
            "config.shadow.count",
            f"Expected {{}} >= 2, got {shadow.count}: one validates the reconstructor.",
        )
    _at_most("config.reconn.models", reconn.models, "shadow.count", shadow.count)
    _at_most(
        "config.inversion.targets",
        experiment.inversion.targets,
        "data.num_test",
        experiment.data.num_test,
    )
    for name, attack in experiment.attacks.items():
        _at_most(
            f"config.attacks.{name}.targets",
            attack.targets,
            "data.num_test",
            experiment.data.num_test,
        )
        if isinstance(attack.settings, ReconnConfig):
            place = f"config.attacks.{name}.models"
            models = attack.settings.models
            _at_most(place, models, "shadow.count", shadow.count)
    with checks.under("config.view"):
        view.require(victim, public=shadow.count)
    if reconn.kind == "network":
        with checks.under("config.reconn"):
            reconn.network(view.most_features(victim), victim.image_shape)
    trained_with = reconn.kind == "network" and reconn.loss.lpips > 0
    if experiment.evaluation.lpips or trained_with:
        perceptual.require(victim.image_shape)


def _at_most(field: str, value: int | None, of: str, bound: int) -> None:
    """Raise FieldError unless `value` is None or at most another field's."""
    if value is not None and value > bound:
        raise checks.FieldError(field, f"Expected {{}} <= {of} = {bound}, got {value}.")
