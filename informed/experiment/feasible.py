"""Check a run's configuration before the first model is trained, for all its stages.

A mistake that shows in the last stage would cost hours. Dataclasses check single fields
on construction. `pipeline` calls `victim` to check what they can't: fields against each
other, the data and the installed extras. On the way it builds the victim, the network
whose trained weights are attacked, and returns it. No model is trained.
"""

import reconn
from informed.attacks.attack_row import Facts
from informed.experiment.reconn_settings import ReconnConfig
from informed.experiment.settings import Experiment
from reconn import modules, perceptual
from reconn.input_layout import InputLayout
from shadow import checks, known, victims
from shadow.victims import Victim


def victim(
    experiment: Experiment, *, image_shape: tuple[int, ...], num_classes: int
) -> Victim:
    """Return the victim of an experiment, after checks that every stage can run.

    Raises:
      ValueError: fields contradict each other, the victim lacks a released layer, or
        widths don't fit the images.
      ImportError: an extra isn't installed; names it.
    """
    with checks.under("config.victim"):
        victim = victims.build(
            experiment.victim, image_shape=image_shape, num_classes=num_classes
        )
    shadow, view, number = experiment.shadow, experiment.view, experiment.data.num_test
    if shadow.count < 3:
        raise checks.FieldError(
            "config.shadow.count",
            f"Expected {{}} >= 3, got {shadow.count}: one validates the reconstructor,"
            " and two have to differ.",
        )
    facts = Facts(
        withheld={
            "answers": "what a run releases is config.view; type = kernel sees it",
            "estimator": "its models aren't fitted estimators",
        },
        secret=experiment.training.initialisation != "shared",
    )
    with checks.under("config.view"):
        features = view.most_features(victim)
    layout = InputLayout(num_features=features, image_shape=victim.image_shape)
    lpips = experiment.evaluation.lpips
    for name, attack in experiment.played.items():
        place, settings = f"config.attacks.{name}", attack.settings
        most = {"targets": (attack.targets, "data.num_test", number)}
        if isinstance(settings, ReconnConfig):
            most["models"] = (settings.models, "shadow.count", shadow.count)
        for field, (value, of, bound) in most.items():
            if value is not None and value > bound:
                raise checks.FieldError(
                    f"{place}.{field}", f"Expected {{}} <= {of} = {bound}, got {value}."
                )
        if why := attack.row.why_not(facts):
            raise checks.FieldError(
                f"{place}.type",
                f"{{}} = {attack.type!r} doesn't apply to a run: {why}.",
            )
        if attack.known:
            with checks.under(place):
                known.rows_of(victim.image_shape, attack.known)
        if not isinstance(settings, ReconnConfig):
            continue
        method = settings.method()
        if isinstance(method, reconn.Network):
            called = checks.called({"module": "architecture"})
            with checks.under(place), called:
                modules.build(method.module, layout)
        lpips |= settings.loss.lpips > 0
    with checks.under("config.view"):
        view.require(victim, public=shadow.count)
    if lpips:
        perceptual.require(victim.image_shape)
    return victim
