"""What would make a later stage of a run fail, found before the first model is trained.

Dataclasses check each field for itself when they are made; here are the checks between
groups of fields, and of fields against the data and the machine.
"""

import reconn
from informed.attacks.attack_row import Facts
from informed.experiment.reconn_settings import ReconnConfig
from informed.experiment.settings import Experiment
from reconn import modules, perceptual
from reconn.sight import Sight
from shadow import checks, victims
from shadow.victims import Victim


def victim(
    experiment: Experiment, *, image_shape: tuple[int, ...], num_classes: int
) -> Victim:
    """Build the victim of an experiment, if each of its stages can be run with it.

    Raises:
      ValueError: a number that another one doesn't allow, a layer that the victim
        hasn't, widths that don't fit the images.
      ImportError: an extra that isn't installed; names it.
    """
    with checks.under("config.victim"):
        victim = victims.build(
            experiment.victim, image_shape=image_shape, num_classes=num_classes
        )
    shadow, view = experiment.shadow, experiment.view
    if shadow.count < 3:
        raise checks.FieldError(
            "config.shadow.count",
            f"Expected {{}} >= 3, got {shadow.count}: one validates the reconstructor,"
            " and two have to differ.",
        )
    with checks.under("config.view"):
        view.require(victim, public=shadow.count)
    lpips = experiment.evaluation.lpips
    for name, attack in experiment.played.items():
        place = f"config.attacks.{name}"
        number = experiment.data.num_test
        _at_most(f"{place}.targets", attack.targets, "data.num_test", number)
        why = attack.row.why_not(facts(experiment))
        if why:
            raise checks.FieldError(
                f"{place}.type",
                f"{{}} = {attack.type!r} doesn't apply to a run: {why}.",
            )
        settings = attack.settings
        if isinstance(settings, ReconnConfig):
            _at_most(f"{place}.models", settings.models, "shadow.count", shadow.count)
            method = settings.method()
            if isinstance(method, reconn.Network):
                called = checks.called({"module": "architecture"})
                with checks.under(place), called:
                    sight = Sight(
                        num_features=view.most_features(victim),
                        image_shape=victim.image_shape,
                    )
                    modules.build(method.module, sight)
                lpips |= method.loss.lpips > 0
    if lpips:
        perceptual.require(victim.image_shape)
    return victim


def facts(experiment: Experiment) -> Facts:
    """What decides which attacks apply to a run."""
    answers = "what a run releases is config.view; type = kernel sees it"
    return Facts(
        withheld={
            "answers": answers,
            "estimator": "its models aren't fitted estimators",
            "every noisy gradient": "only the developer has every noisy gradient",
        },
        secret=experiment.training.initialisation != "shared",
        targets=experiment.data.num_test,
    )


def _at_most(field: str, value: int | None, of: str, bound: int) -> None:
    """Raise FieldError unless `value` is None or at most another field's."""
    if value is not None and value > bound:
        raise checks.FieldError(field, f"Expected {{}} <= {of} = {bound}, got {value}.")
