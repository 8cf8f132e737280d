"""Seeds: generators against the libraries themselves; planted seeds; none at all."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import informed
import shadow
from informed.attacks import seeds
from informed.attacks.inversion import InversionConfig
from informed.attacks.inversion.retraining import Programs, Retraining
from informed.attacks.seeds import recovery, seed_search, still, threefry
from informed.experiment.training_settings import TrainingConfig
from shadow import SeedFamily, checks, publish

KEY = jax.random.key(0)


def slow(values):
    return pytest.param(values, marks=pytest.mark.slow)


SEEDS = np.array([0, 1, 77, 2**31 + 5, 2**32 - 1], np.uint32)


# Generators


class Net(nn.Module):
    @nn.compact
    def __call__(self, images):
        hidden = nn.elu(nn.Dense(6)(images.reshape(len(images), -1)))
        return nn.Dense(10)(hidden)


def haiku_init(key):
    victim = shadow.build_victim(
        shadow.VictimConfig(), image_shape=(8, 8, 1), num_classes=10
    )
    return victim.init(key)


def flax_init(key):
    victim = shadow.from_flax(Net(), image_shape=(8, 8, 1), num_classes=10)
    return victim.init(key)


def script_init(key):
    first, second, third = jax.random.split(jax.random.fold_in(key, 9), 3)
    return [
        jax.random.normal(first, (5, 4)) * 0.1,
        jax.random.uniform(second, (7,), minval=-1, maxval=3),
        jax.random.truncated_normal(third, -1, 1, (3, 3, 2)),
    ]


@pytest.mark.parametrize("draw", [haiku_init, flax_init, script_init])
def test_single_elements_are_those_of_jax(draw):
    leaves = [jax.tree.leaves(draw(jax.random.key(seed))) for seed in SEEDS]
    whole = np.stack([np.concatenate([np.ravel(x) for x in row]) for row in leaves])
    for number in (0, 11, whole.shape[1] - 1):
        found = np.asarray(jax.jit(threefry.element(draw, number))(SEEDS))
        np.testing.assert_allclose(found, whole[:, number], rtol=1e-6)
    with pytest.raises(ValueError, match=f"element of {whole.shape[1]}"):
        threefry.element(draw, whole.shape[1])


def test_a_way_to_draw_that_is_not_by_elements_is_noticed():
    """An orthogonal matrix: no element can be had alone, so all of it is drawn."""

    def draw(key):
        return [jax.nn.initializers.orthogonal()(key, (6, 6))]

    family = SeedFamily(draw=draw, stop=500)
    screen = seed_search.screen(family, [3, 4])
    values = family.theta(321)[[3, 4]].astype(np.float64)[None]
    pieces = seed_search.sweep(screen, values - 1e-6, values + 1e-6, 0, 500)
    assert [pair for _, pairs in pieces for pair in pairs] == [(0, 321)]


# Recovery


@pytest.fixture(scope="module")
def parts(digits):
    return shadow.split(digits, num_fixed=100, num_shadow=300, num_test=3, seed=0)


def world(parts, *, secrets, targets=None, start=0, stop=100_000, **fields):
    """What is released, and told: theta_0 of each model comes from a secret seed."""
    victim = shadow.build_victim(
        shadow.VictimConfig(widths=(8,)), image_shape=(8, 8, 1), num_classes=10
    )
    training = {"initialisation": "seeded", "epochs": 30} | fields
    factory = shadow.Factory(
        algorithm=TrainingConfig(**training).algorithm(victim),
        fixed=parts.fixed,
        key=jax.random.key(7),
        role="released",
        width=4,
    )
    told = factory.knowledge(public=parts.shadow)
    family = dataclasses.replace(told.seeds, start=start, stop=stop)
    told = dataclasses.replace(told, seeds=family)
    runs = still.seeded_runs(told, family, np.array(secrets), jax.random.key(1))
    targets = parts.test if targets is None else targets
    targets = targets.take(np.arange(len(secrets)))
    numbers = np.arange(len(secrets))
    thetas = runs(targets.images[:, None], targets.labels[:, None], numbers)
    return factory, publish(thetas), told, targets


@pytest.mark.parametrize(
    "fields",
    [
        {"weight_decay": 0.01, "momentum": 0.5},
        slow({}),
        slow({"optimiser": "adam", "learning_rate": 0.01}),
        slow({"batch_size": 32, "epochs": 5, "shuffling": "unknown"}),
    ],
    ids=str,
)
def test_planted_seeds_are_recovered(fields, parts):
    secrets = [99_999, 0, 54_321]
    _, release, told, _ = world(parts, secrets=secrets, **fields)
    assert seeds.recover(release, told, key=KEY).tolist() == secrets
    by_still = recovery.still_search(release, told, key=KEY)
    assert all(by_still.agreement(i, seed) == 1 for i, seed in enumerate(secrets))


def test_a_target_that_lights_dead_pixels_is_recovered_from_the_others(parts):
    """Its own rows move: the first pass finds nothing, a later one does."""
    lit = parts.test.take(np.arange(1))
    images = lit.images.copy()
    images[0, 0, 0] = 1.0  # never lit in D_-, nor in public: the first to be compared
    lit = dataclasses.replace(lit, images=images)
    _, release, told, _ = world(parts, secrets=[777], targets=lit)
    assert seeds.recover(release, told, key=KEY).tolist() == [777]
    by_still = recovery.still_search(release, told, key=KEY)
    assert 0.3 < by_still.agreement(0, 777) < 1


@pytest.mark.slow
def test_published_in_fewer_bits(parts):
    factory, release, told, _ = world(parts, secrets=[4242], stop=20_000)
    view = shadow.Layers.of(factory.descent.victim.layout, precision="float16")
    rounded = publish(release.weights, view)
    assert seeds.recover(rounded, told, key=KEY).tolist() == [4242]


def test_a_seed_outside_the_family_is_not_found(parts):
    _, release, told, _ = world(parts, secrets=[200_000, 5])
    assert seeds.recover(release, told, key=KEY).tolist() == [seeds.NOT_FOUND, 5]


def bright(parts):
    """No pixel is dead; with noise D_- spans all pixels as well."""
    rng = np.random.default_rng(0)

    def changed(examples):
        images = 0.1 + 0.8 * examples.images
        images = images + 0.1 * rng.uniform(-1, 1, images.shape)
        return dataclasses.replace(examples, images=images.astype(np.float32))

    return dataclasses.replace(
        parts,
        fixed=changed(parts.fixed),
        shadow=changed(parts.shadow),
        test=changed(parts.test),
    )


def test_seeds_that_are_not_searched_are_not_called_absent(parts):
    _, release, told, _ = world(bright(parts), secrets=[290], start=10, stop=300)
    with pytest.warns(RuntimeWarning, match="None of the 290 seeds was searched"):
        assert seeds.recover(release, told, key=KEY).tolist() == [seeds.NOT_FOUND]


def numbers(images, labels, seed):
    return np.random.default_rng(seed).normal(size=4) + images.mean()


def test_seeds_of_other_libraries_are_refused(parts):
    function = shadow.PythonFunction(train=numbers, key_is_public=False)
    factory = shadow.Factory(
        algorithm=function, fixed=parts.fixed, key=jax.random.key(3), role="released"
    )
    release = publish(factory.train(parts.test.take(np.arange(1))))
    told = dataclasses.replace(
        factory.knowledge(public=parts.shadow), seeds=SeedFamily(draw=script_init)
    )
    assert told.training_key is None
    with pytest.raises(checks.FieldError, match="seeds of an A that JAX runs"):
        seeds.recover(release, told, key=KEY)


# Inversion from there


def test_an_unknown_initialisation_is_no_defence(parts):
    """Neither seed nor label are told; every pixel comes out, certified."""
    _, release, told, targets = world(parts, secrets=[31_000, 5], stop=40_000)
    assert told.initialisation is None
    attack = informed.Inversion(config=InversionConfig(stages=(16,)))
    found = attack(release, told, key=KEY)
    np.testing.assert_array_equal(found.images, targets.images)
    np.testing.assert_array_equal(found.labels, targets.labels)
    assert found.certified.all()


@pytest.mark.slow
def test_where_no_seed_is_found_nothing_is_claimed(parts):
    _, release, told, targets = world(parts, secrets=[31_000], stop=2_000)
    attack = informed.Inversion(config=InversionConfig(stages=(16,), draws=4, steps=2))
    told = dataclasses.replace(told, labels=targets.labels)
    assert not attack(release, told, key=KEY).certified.any()


@pytest.mark.parametrize(
    "fields", [{}, slow({"optimiser": "adam", "learning_rate": 0.01})], ids=str
)
def test_programs_that_releases_share_are_those_of_each(fields, parts):
    _, _, told, targets = world(parts, secrets=[3, 4], **fields)
    starts = np.stack([told.seeds.theta(seed) for seed in (3, 4)])
    both = dataclasses.replace(told, initialisation=starts)
    settings = {"width": 4, "draws": 32, "noise_draws": 512, "key": KEY}
    from informed.attacks.inversion.derivatives import retraining_of

    shared = retraining_of(both, **settings)
    image, label = targets.images[:1], targets.labels[:1]
    basis = np.eye(64)[20:23]
    for release in (0, 1):
        alone = dataclasses.replace(told, initialisation=starts[release])
        expected = retraining_of(alone, **settings)
        pair = shared.at(release), expected
        thetas = [runs.thetas(image[None], label[None]) for runs in pair]
        np.testing.assert_allclose(*thetas, atol=1e-6)
        slopes = [runs.slopes(image, label, basis) for runs in pair]
        np.testing.assert_allclose(*slopes, atol=1e-4)


def test_membership_takes_one_initialisation_a_release(parts):
    _, release, told, targets = world(parts, secrets=[3, 4, 5])
    starts = np.stack([told.seeds.theta(seed) for seed in (3, 4, 5)])
    told = dataclasses.replace(told, initialisation=starts)
    other = parts.shadow.take(np.arange(3))
    attack = informed.RetrainingMembership()
    assert attack(release, told, (targets, other), key=KEY).tolist() == [0, 0, 0]
    assert attack(release, told, (other, targets), key=KEY).tolist() == [1, 1, 1]
    fewer = dataclasses.replace(told, initialisation=starts[:2])
    with pytest.raises(ValueError, match="one per release, 3, got 2"):
        fewer.require(release)


# Who knows what


def test_a_seeded_developer_draws_as_a_script_does(parts):
    factory, *_ = world(parts, secrets=[0])
    first = np.stack([factory.draw(np.int32(n)).start for n in range(2)])
    private = jax.random.fold_in(factory.key, 2)
    victim = factory.descent.victim
    for number, start in enumerate(first):
        key = jax.random.split(jax.random.fold_in(private, number), 3)[0]
        seed = int(jax.random.bits(key, dtype=jnp.uint32))
        expected = victim.flatten(victim.init(jax.random.key(np.uint32(seed))))
        np.testing.assert_array_equal(start, expected)
    assert factory.initialisation is None
    told = factory.knowledge()
    assert told.seeds is not None
    assert (told.seeds.start, told.seeds.stop) == (0, 2**32)
    secret = dataclasses.replace(
        factory, algorithm=dataclasses.replace(factory.descent, initialisation="random")
    )
    assert secret.knowledge().seeds is None


def test_jax_takes_32_bits_of_a_seed():
    """Without 64-bit integers; so a larger seed is no larger secret."""
    small, large = jax.random.key(5), jax.random.key(5 + 3 * 2**32)
    np.testing.assert_array_equal(
        jax.random.key_data(small), jax.random.key_data(large)
    )


def test_what_a_family_may_be():
    with pytest.raises(checks.FieldError, match="stop"):
        SeedFamily(draw=haiku_init, start=5, stop=5)
    with pytest.raises(checks.FieldError, match=r"2\*\*32"):
        SeedFamily(draw=haiku_init, stop=2**33)


def test_what_recovery_needs_and_is_not_told_is_named(parts):
    _, release, told, _ = world(parts, secrets=[1])
    for field in ("fixed", "algorithm", "seeds"):
        less = dataclasses.replace(told, **{field: None})
        with pytest.raises(ValueError, match=f"told {field}; this adversary isn't"):
            seeds.recover(release, less, key=KEY)
    wrong = dataclasses.replace(
        told.seeds, draw=lambda key: jax.random.normal(key, (9,))
    )
    with pytest.raises(ValueError, match=r"seeds.draw gives 9 weights"):
        seeds.recover(release, dataclasses.replace(told, seeds=wrong), key=KEY)


@pytest.mark.slow
def test_retraining_counts_runs_of_each_release_for_itself(parts):
    _, _, told, targets = world(parts, secrets=[3])
    starts = np.stack([told.seeds.theta(seed) for seed in (3, 4)])
    told = dataclasses.replace(told, initialisation=starts)
    runs = Retraining(Programs(told, width=2, draws=1, key=KEY))
    second = runs.at(1)
    second.thetas(targets.images[:1][None], targets.labels[:1][None])
    assert (runs.runs, second.runs) == (0, 1)
