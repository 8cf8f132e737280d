"""The three resumable stages of a run, as `informed run` executes them.

    shadow     <shadow>/shadow/, <shadow>/released/   stores of trained models
    attack     <workdir>/attacks/NAME.npz             guesses of each of config.attacks
    evaluate   <workdir>/results.json, *.png          the comparison with the truth

Each stage reads the output of the one before. A finished stage does nothing; an
interrupted one continues. Every stage compares its configuration and versions with
those of the stores and stages that it reads, and with its own earlier record. If they
differ it stops and names the fields; --accept-versions lets other versions pass.
`<shadow>` is the same folder as `<workdir>` unless another run's shadow models are to
be attacked, or they lie in a bucket. `informed shadow` and `informed attack` execute
one stage; `shadow_sets` calls `remake`.
"""

import dataclasses
import functools

import numpy as np

from informed.attacks.attack_row import Material
from informed.experiment import evaluation, feasible, stored
from informed.experiment.pools import Pools
from informed.experiment.settings import Experiment
from informed.experiment.stored import Paths, Stage
from informed.play import play
from shadow import checks, data, files
from shadow import plan as planning
from shadow.factory import Factory
from shadow.known import Known, rows_of
from shadow.launchers import Launch
from shadow.launchers.launch import local
from shadow.plan import Plan
from shadow.store import Store
from shadow.threat import publish

ROLES = ("released", "shadow")


def run(experiment: Experiment, paths: Paths, *, progress: bool = True) -> dict:
    """Run all stages; return the contents of results.json."""
    shadow(experiment, paths, progress=progress)
    attack(experiment, paths, progress=progress)
    return evaluation.evaluate(experiment, paths)


def shadow(
    experiment: Experiment,
    paths: Paths,
    *,
    launch: Launch = local,
    form: str | None = None,
    progress: bool = True,
) -> None:
    """Train the shadow models and the released models of the test targets.

    Args:
      launch: starts the workers; see `shadow.launchers`.
      form: implementation of the network for training, one of `Victim.forms`; None:
        the one that suits the device.
    Raises: ValueError: this or a later stage can't run; raised before the first model.
    """
    record = stored.shadow_record(experiment)
    outputs = ("shadow/manifest.json", "released/manifest.json")
    stage = Stage(paths.shadow, "shadow", record, outputs=outputs)
    pools = Pools(paths.data_dir)
    opened = (Store(paths.store(role)) for role in ROLES)
    complete = stage.done and not any(store.missing() for store in opened)
    shown = (
        Store(paths.store("shadow")) if complete else pools.load(experiment.data.name)
    )
    feasible.victim(
        experiment, image_shape=shown.image_shape, num_classes=shown.num_classes
    )
    if complete:
        return
    pools.split(experiment)  # raises for too few images before the stage begins
    with stage.running():
        prepare = functools.partial(stores, experiment, paths, pools, form=form)
        launch(prepare, progress=progress, on_block=stage.note)


def stores(
    experiment: Experiment, paths: Paths, pools: Pools, form: str | None = None
) -> list[Store]:
    """Return the stores of the shadow stage with their factories, created if needed.

    `form` is as for `shadow`.

    Raises: ConfigurationMismatchError, VersionMismatchError: a store has another
      configuration or version.
    """
    split, by_role = factories(experiment, pools)
    # One algorithm for both roles, so that training is compiled once.
    algorithm = dataclasses.replace(by_role["shadow"].descent, form=form)
    return [
        Store.open(
            paths.store(role),
            dataclasses.replace(factory, algorithm=algorithm),
            split.test if role == "released" else split.shadow,
            block_size=experiment.shadow.block_size,
            configuration=experiment.model_configuration,
            positions=split.positions,
            dropped=split.dropped,
        )
        for role, factory in by_role.items()
    ]


def factories(
    experiment: Experiment, pools: Pools
) -> tuple[data.Split, dict[str, Factory]]:
    """Return the split data, and the factories by role, in the order of training.

    Raises: ValueError, ImportError: a stage can't run, see `feasible.victim`; too few
      images.
    """
    pool = pools.load(experiment.data.name)
    victim = feasible.victim(
        experiment, image_shape=pool.image_shape, num_classes=pool.num_classes
    )
    split = pools.split(experiment)
    factory = Factory(
        experiment.training.algorithm(victim),
        split.fixed,
        key=experiment.training_key,
        width=experiment.shadow.models_per_batch,
    )
    return split, {role: dataclasses.replace(factory, role=role) for role in ROLES}


def plan(experiment: Experiment, paths: Paths) -> Plan:
    """Return the cost of the shadow stage, estimated from one batch on this machine.

    Raises: ValueError: a stage can't run; MemoryError: it doesn't fit; OSError: this
      machine's disk has less room than the stores need.
    """
    split, by_role = factories(experiment, Pools(paths.data_dir))
    factory = by_role["shadow"]
    models = experiment.shadow.count + experiment.data.num_test
    planned = planning.plan(factory, split.shadow, models)
    planning.require_room(planned, paths.shadow)
    return planned


def remake(paths: Paths, *, progress: bool = True) -> None:
    """Continue the shadow stage with the configuration that it was begun with.

    Raises: NotMadeError: it was never begun.
    """
    configuration = Stage.read(paths.shadow, "shadow")["configuration"]
    del configuration["files"]
    shadow(Experiment.from_mapping(configuration), paths, progress=progress)


def attack(
    experiment: Experiment,
    paths: Paths,
    *,
    only: str | None = None,
    progress: bool = True,
) -> None:
    """Play the attacks on the released models.

    No attack sees more of its targets than the pixels that its adversary knows.

    Args:
      only: the name of one of `config.attacks`; None: all of them.
    Raises: FieldError: there is no such attack, or it is left out.
    """
    if only is not None:
        checks.choice("config.attacks", only, experiment.played)
    for name in experiment.played:
        if only in (None, name):
            try:
                _attack(experiment, name, paths, progress=progress)
            except Exception as error:
                error.add_note(f"attacks.{name}")  # for the message of --max-success
                raise


def _attack(experiment: Experiment, name: str, paths: Paths, *, progress: bool) -> None:
    """Play one of `experiment.attacks`, and save everything that it returned."""
    named, key = experiment.attacks[name], experiment.attack_key(name)
    row = named.row
    store, released = stored.stores(experiment, paths)
    record = stored.attack_record(experiment, name, store, released)
    output = f"attacks/{name}.npz"
    stage = Stage(paths.workdir, f"attack-{name}", record, outputs=(output,))
    if stage.done:
        return
    with stage.running():
        whole = row.sees == "weights"
        view = (stored.whole_view if whole else stored.view_of)(experiment, store)
        public = stored.targets(store)
        developer = stored.factory_of(experiment, store, role="released", width=1)
        models = released.read()
        knowledge = developer.knowledge(public=public)
        if named.known:
            mask = rows_of(models.image_shape, named.known)
            knowledge = dataclasses.replace(
                knowledge, known=Known.of(models.images[: named.targets], mask)
            )
        trial = play(
            row,
            Material(
                settings=named.settings,
                shadows=store,
                view=view,
                workdir=paths.workdir / "attacks" / name,
                key=key,
                progress=progress,
                note=stage.note,
            ),
            publish(models.weights[: named.targets], view),
            knowledge,
            key=key,
        )
        reconstruction = trial.reconstruction
        if reconstruction is None or trial.finished is None:
            raise checks.FieldError(f"attacks.{name}", f"{{}}: {trial.why_not}.")
        missed = np.flatnonzero(~trial.finished)
        if len(missed):
            raise FloatingPointError(
                f"attacks.{name} gave NaN or infinite pixels at {len(missed)} of"
                f" {len(trial.finished)} targets, first at number {missed[0]}. A guess"
                " that it can't make is the mean image, or another that counts."
            )
        values = {
            f.name: getattr(reconstruction, f.name)
            for f in dataclasses.fields(reconstruction)
        }
        known = {key: np.asarray(v) for key, v in values.items() if v is not None}
        stage.note()  # raises if another run is at this stage in the same folder
        files.write_arrays(paths.workdir / output, **known)
