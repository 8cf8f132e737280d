"""The KKT attack: losses as published, a planted combination, the circle in small."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import kkt_circle
from tests.uninformed.kkt.small_experiment import applied
from uninformed import homogeneous, kkt
from uninformed import max_margin as margin
from uninformed.homogeneous import HomogeneousConfig, Layer
from uninformed.kkt import KktConfig, loss, stationarity


def network(key, outputs=1, inputs=5, widths=(12, 9)):
    config = HomogeneousConfig(widths=widths, outputs=outputs, first_scale=0.5)
    return homogeneous.init(config, inputs, key)


def of_rank_three(key, rng, outputs=1):
    net = network(key, outputs, inputs=8, widths=(12,))
    low_rank = rng.standard_normal((8, 3)) @ rng.standard_normal((3, 12))
    return (Layer(jnp.asarray(low_rank, jnp.float32), net[0].b), *net[1:])


def loss_at_start(config, net, key):
    """Our loss, and the candidates and multipliers that it was taken at."""
    problem = loss.KktProblem(config, net, None)
    begin = problem.begin(key)
    total, _ = jax.jit(problem.loss)(begin.unknowns, begin, config.alpha)
    return float(total), begin.unknowns


def combination(net, points, coefficients, alpha):
    """Sum of c_i grad Phi(x_i) with a sigmoid for a derivative, by autodiff."""

    @jax.custom_jvp
    def relu(z):
        return jnp.maximum(z, 0)

    @relu.defjvp
    def _(primals, tangents):
        return relu(primals[0]), tangents[0] * jax.nn.sigmoid(alpha * primals[0])

    return jax.jit(
        jax.grad(lambda net: jnp.sum(coefficients * applied(net, points, relu)))
    )(net)


def squared_distance(net, other):
    return sum(
        float(jnp.sum((one - two) ** 2))
        for one, two in zip(jax.tree.leaves(net), jax.tree.leaves(other), strict=True)
    )


@pytest.mark.parametrize("code", [False, True])
def test_published_losses(code, key):
    """Equations (6) to (9), as meant, written plainly.

    The code's has multipliers over m, squared hinges, pixels in [-1, 1], and sums all.
    """
    make = KktConfig.public_code if code else KktConfig.published
    config, net = make(candidates=6, least_multiplier=0.3, start=1.0), network(key)
    total, (points, multipliers) = loss_at_start(config, net, key)
    coefficients = (multipliers * np.repeat([-1.0, 1.0], 3))[:, None] / (6**code)
    made = combination(net, points, coefficients, config.alpha)
    power = 2 if code else 1
    dual = (np.maximum(0.3 - multipliers, 0) ** power).sum()
    above, below = np.maximum(points - 1, 0), np.maximum(-points - code, 0)
    outside = (above**power + below**power).sum() / (1 if code else 5)
    expected = squared_distance(net, made) + 5 * dual + outside
    np.testing.assert_allclose(total, expected, rtol=1e-4)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("spectrum", [0.0, 1.0])
def test_the_span_of_the_weights_changes_no_loss(outputs, spectrum, key, rng):
    """Weights of rank three: what is outside their span adds nothing."""
    net = of_rank_three(key, rng, outputs)
    config = KktConfig(
        candidates=6,
        prior_weight=0.0,
        units="one",
        alpha_units="absolute",
        spectrum=spectrum,
    )
    inside = loss.KktProblem(config, net, None)
    assert inside.basis is not None
    assert inside.basis.shape == (3, 8)
    free = dataclasses.replace(config, span=False, spectrum=0.0)
    outside = loss.KktProblem(free, net, None)
    begin = inside.begin(key)
    unknowns = begin.unknowns
    pixels = unknowns._replace(points=inside.pixels(unknowns.points))
    ours = inside.loss(unknowns, begin, config.alpha)[0]
    np.testing.assert_allclose(
        ours, outside.loss(pixels, begin, config.alpha)[0], rtol=1e-4
    )


@pytest.mark.parametrize("field", ["spectrum", "whitening"])
def test_coordinates_without_a_span_have_no_spectrum(field):
    with pytest.raises(ValueError, match=rf"^{field} is 0\.5, but candidates are free"):
        KktConfig(span=False, **{field: 0.5})


@pytest.mark.parametrize("candidates", [2, 20])
@pytest.mark.parametrize("whitening", [0.5, 1.0])
def test_whitened_residuals_are_those_of_each_direction(
    candidates, whitening, key, rng
):
    """The sum written plainly, direction after direction; the layer keeps its norm."""
    net = of_rank_three(key, rng)
    config = KktConfig(
        candidates=candidates,
        whitening=whitening,
        prior_weight=0.0,
        relative=False,
        margin_weight=0.0,
    )
    problem = loss.KktProblem(config, net, None)
    # Few candidates have the form of inner products.
    form = stationarity.gram if candidates == 2 else stationarity.plain
    assert problem._residual is form
    begin = problem.begin(key)
    total, (layers, coefficients) = problem.loss(begin.unknowns, begin, config.alpha)
    at = stationarity.passes(
        problem.network,
        begin.unknowns.points * problem.spread,
        coefficients,
        config.alpha / begin.scales,
    )
    first = problem.network[0]
    sizes = np.linalg.norm(first.w, axis=1)
    residuals = np.sum((first.w - at.inputs[0].T @ at.back[0]) ** 2, axis=1)
    powers = sizes ** (-2 * whitening)
    powers *= np.sum(sizes**2) / np.sum(powers * sizes**2)
    biases = np.sum((first.b - at.back[0].sum(axis=0)) ** 2)
    np.testing.assert_allclose(
        total, powers @ residuals + biases + layers[1], rtol=1e-4
    )
    np.testing.assert_allclose(layers[0], residuals.sum() + biases, rtol=1e-4)


@pytest.mark.parametrize(("span", "spectrum"), [(False, 0.0), (True, 0.0), (True, 0.5)])
def test_candidates_begin_where_they_are_told(span, spectrum, key, rng):
    """At a rate of next to nothing they stay, within the span if that is asked for."""
    net = network(key, inputs=6, widths=(4, 3))
    config = KktConfig(
        candidates=4, steps=3, rate=1e-9, restarts=0, span=span, spectrum=spectrum
    )
    starts = jnp.asarray(rng.standard_normal((2, 4, 6)), jnp.float32)
    found = kkt.attack_many(config, net, keys=jax.random.split(key, 2), starts=starts)
    basis = np.linalg.qr(np.asarray(net[0].w))[0]
    expected = starts @ (basis @ basis.T) if span else starts
    for each, start in zip(found, expected, strict=True):
        np.testing.assert_allclose(each.points, start, atol=1e-5)
    again = dataclasses.replace(config, restarts=1)
    with pytest.raises(ValueError, match=r"^restarts is 1, but"):
        kkt.attack_many(again, net, keys=jax.random.split(key, 2), starts=starts)


def test_directions_of_several_classes_lead_over_the_runner_up():
    outputs = jnp.array([[3.0, 1.0, 2.0], [0.0, 5.0, 1.0]])
    found = kkt.directions(outputs, jnp.array([0, 0]))
    np.testing.assert_array_equal(found, [[1, 0, -1], [1, -1, 0]])


def test_layers_weigh_by_what_training_can_have_put_there(rng):
    """Balanced layers as before; of one with much of its start left hardly anything."""

    def weights(layers, *norms):
        shapes = ((5, 4), (4, 4), (4, 1))
        drawn = [rng.standard_normal(shape) for shape in shapes]
        network = tuple(
            Layer(jnp.asarray(w * norm / np.linalg.norm(w), jnp.float32), None)
            for w, norm in zip(drawn, norms, strict=True)
        )
        config = KktConfig(candidates=4, span=False, layers=layers)
        return loss.KktProblem(config, network, None).weights

    np.testing.assert_allclose(
        weights("trained", 2, 2, 2), weights("alike", 2, 2, 2), rtol=1e-5
    )
    first, second, last = weights("trained", 2, 40, 2)
    assert second < 1e-3 * first
    assert last == pytest.approx(first, rel=1e-5)
    # The sum is 1 where nothing is explained of what was trained.
    assert 4 * (first + second + last) == pytest.approx(1, rel=1e-5)


def test_span_ends_where_singular_values_drop(rng):
    signal = rng.standard_normal((50, 4)) @ rng.standard_normal((4, 30))
    found = kkt.span(signal + 1e-5 * rng.standard_normal((50, 30)))
    assert found is not None
    assert found.shape == (4, 50)
    outside = signal - found.T @ (found @ signal)
    assert np.linalg.norm(outside) < 1e-4 * np.linalg.norm(signal)
    assert kkt.span(rng.standard_normal((5, 30))) is None


@pytest.mark.parametrize("largest", [200, 5000])
def test_span_is_what_stands_out_of_initial_noise(largest, rng):
    """Planted directions from far above the noise to its edge, with a drop or not."""
    noise = 1e-4 * rng.standard_normal((400, 150))
    left, right = (
        np.linalg.qr(rng.standard_normal((side, 12)))[0] for side in noise.shape
    )
    edge = 1e-4 * (np.sqrt(400) + np.sqrt(150))
    # A drop within what stands out, by a factor of ten at least, ends nothing.
    sizes = edge * np.append(largest, np.geomspace(20, 1.5, 11))
    found = kkt.span((left * sizes) @ right.T + noise)
    assert found is not None
    assert found.shape == (12, 400)
    outside = left - found.T @ (found @ left)
    assert np.linalg.norm(outside[:, 0]) < 0.01
    # Of the weakest the noise turns a part away; most of it stays.
    assert np.linalg.norm(outside[:, -1]) < 0.8
    # Noise alone has no span; and where all directions are strong, none is left out.
    assert kkt.span(noise) is None
    strong = rng.standard_normal((400, 30)) * np.geomspace(1, 1e-2, 30)
    strong = kkt.span(strong)
    assert strong is not None
    assert len(strong) == 30


@pytest.fixture(scope="module")
def circle() -> tuple[homogeneous.DenseLayers, np.ndarray]:
    """A victim of twenty points on the unit circle, near a KKT point."""
    angles = 2 * np.pi * np.arange(20) / 20
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    net = homogeneous.init(HomogeneousConfig(widths=(200, 200)), 2, jax.random.key(0))
    config = margin.MarginConfig(route_steps=50_000)
    return margin.train(config, net, points, np.arange(20) % 2), points


@pytest.mark.slow
def test_points_are_read_out_of_weights_alone(circle):
    """Most of them: a fourth of the steps of `benchmarks.kkt_circle`."""
    net, points = circle
    config = KktConfig(steps=5000)
    runs = kkt.attack_many(config, net, keys=jax.random.split(jax.random.key(0), 2))
    best = min(runs, key=lambda run: run.loss)
    kept = kkt_circle.thinned(best.points, best.multipliers)
    distances = np.linalg.norm(points[:, None] - best.points[kept][None], axis=-1)
    assert (distances.min(axis=1) < 0.05).sum() >= 12
    by_chance = np.random.default_rng(0).uniform(-1.1, 1.1, (len(kept), 2))
    distances = np.linalg.norm(points[:, None] - by_chance[None], axis=-1)
    assert (distances.min(axis=1) < 0.05).sum() <= 3


@pytest.mark.slow
def test_runs_don_t_depend_on_their_neighbours(circle):
    net, _ = circle
    config = KktConfig(candidates=8, steps=50)
    keys = jax.random.split(jax.random.key(0), 2)
    together = kkt.attack_many(config, net, keys=keys)[1]
    (alone,) = kkt.attack_many(config, net, keys=keys[1:])
    np.testing.assert_allclose(together.points, alone.points, atol=1e-3)
    again = kkt.attack_many(config, net, keys=keys)[1]
    np.testing.assert_array_equal(together.points, again.points)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"coefficients": "sign"}, "Expected coefficients to be one of"),
        ({"low": 1.0}, "Expected low < high"),
        ({"rate": 0.0}, "Expected rate > 0"),
        ({"coefficients": "signed"}, "^margin_weight is 1.0, but"),
        ({"candidates": 1}, "Expected candidates >= 2"),
    ],
)
def test_bad_fields_are_named(fields, named):
    with pytest.raises(ValueError, match=named):
        KktConfig(**fields)
