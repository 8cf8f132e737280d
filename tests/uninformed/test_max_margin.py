"""Training to KKT points: without the span, identities, conserved quantities."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from shadow.records import Record
from uninformed import homogeneous, pieces
from uninformed import max_margin as margin
from uninformed.homogeneous import HomogeneousConfig
from uninformed.kkt import stationarity
from uninformed.max_margin import MarginConfig

POINTS, INPUTS = 8, 20
# Few steps: rounding grows at every kink that a point crosses.
SHORT = MarginConfig(fitting_steps=60, route_steps=60, largest_step=1e-2)


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((POINTS, INPUTS)).astype(np.float32), np.arange(8) % 2


def assert_close(network, other, atol):
    for pair in zip(jax.tree.leaves(network), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(*pair, rtol=1e-7 * (atol > 0), atol=atol)


@pytest.fixture
def start(key) -> homogeneous.DenseLayers:
    return homogeneous.init(
        HomogeneousConfig(widths=(16, 16), first_scale=0.1), INPUTS, key
    )


@pytest.fixture(scope="module")
def trained(data) -> homogeneous.DenseLayers:
    """Near a KKT point."""
    network = homogeneous.init(
        HomogeneousConfig(widths=(32, 32), first_scale=1e-2), INPUTS, jax.random.key(0)
    )
    return margin.train(MarginConfig(route_steps=20_000), network, *data)


@pytest.mark.parametrize(
    "config",
    [
        dataclasses.replace(SHORT, route="none"),
        SHORT,
        dataclasses.replace(SHORT, route="none", log_loss=False),
        dataclasses.replace(SHORT, loss="mse", route="none"),
    ],
)
def test_the_span_changes_nothing(config, data, start, monkeypatch):
    """Rotations commute with gradient descent, so the basis may be left out."""
    with jax.enable_x64(True):
        start = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), start)
        inside = margin.train(config, start, *data)
        monkeypatch.setattr(margin, "_basis", lambda points: None)
        outside = margin.train(config, start, *data)
    assert {leaf.dtype for leaf in jax.tree.leaves(inside)} == {np.dtype(float)}
    assert_close(inside, outside, atol=1e-8)


def test_fitting_follows_gradient_descent_on_the_log_of_the_loss(data, start):
    points, labels = jnp.asarray(data[0]), jnp.asarray(data[1])

    def log_loss(network):
        outputs = homogeneous.apply(network, points)[:, 0]
        return jnp.log(jnp.mean(jax.nn.softplus(-outputs * (2 * labels - 1))))

    network = start
    for _ in range(20):
        slope = jax.grad(log_loss)(network)
        network = jax.tree.map(lambda leaf, part: leaf - 0.01 * part, network, slope)
    config = MarginConfig(
        fitting_steps=20, learning_rate=0.01, largest_step=1.0, route="none"
    )
    ours = margin.train(config, start, *data)
    assert_close(ours, network, atol=1e-5)


def test_mini_batches_are_descended_in_shuffled_epochs(data, start):
    config = MarginConfig.published(fitting_steps=5, learning_rate=0.05, batch_size=2)
    ours = margin.train(config, start, *data)
    network = start
    for number in range(5):
        key = jax.random.fold_in(jax.random.key(0), number // 4)
        order = jax.random.permutation(key, POINTS)[2 * (number % 4) :][:2]
        points, signs = data[0][order], 2 * data[1][order] - 1

        def mean_loss(network, points=points, signs=signs):
            outputs = homogeneous.apply(network, jnp.asarray(points))[:, 0]
            return jnp.mean(jnp.logaddexp(0, -outputs * signs))

        slope = jax.grad(mean_loss)(network)
        network = jax.tree.map(lambda leaf, part: leaf - 0.05 * part, network, slope)
    assert_close(ours, network, atol=1e-5)


def test_mini_batches_that_do_not_come_out_even_are_refused(data, start):
    config = MarginConfig(batch_size=3, fitting_steps=1)
    with pytest.raises(ValueError, match="batch_size is 3, which doesn't divide 8"):
        margin.train(config, start, *data)


@pytest.mark.parametrize("log_loss", [True, False])
def test_fitting_stops_at_the_loss_that_is_asked_for(data, start, log_loss):
    def end(steps, least):
        config = MarginConfig(
            fitting_steps=steps,
            learning_rate=0.02,
            largest_step=3e-3 if log_loss else 1.0,
            log_loss=log_loss,
            least_loss=least,
            route="none",
        )
        network = margin.train(config, start, *data)
        outputs = homogeneous.apply(network, jnp.asarray(data[0]))
        return float(margin.loss("logistic", outputs, jnp.asarray(data[1])))

    found = end(4000, 0.05)
    assert 0.045 < found <= 0.05
    assert end(5000, 0.05) == found
    assert end(4000, 0.0) < 0.04


def test_a_training_that_was_cut_off_goes_on(data, start, tmp_path, cut_off):
    """Within each of its phases, and to the same bits."""
    whole = margin.train(SHORT, start, *data)
    place = pieces.Place(
        file=tmp_path / "part.npz", record=Record.of({}), what="The training"
    )
    calls = cut_off(10, 50)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            margin.train(SHORT, start, *data, place=place)
    again = margin.train(SHORT, start, *data, place=place)
    assert calls == [*range(2, 61, 2), *range(2, 61, 2)]
    assert_close(again, whole, atol=0)


def test_gradient_descent_conserves_differences_of_layer_norms(data, start):
    """|W_{l+1}|^2 - |W_l|^2, with the first biases counted (Du et al. 2018)."""

    def differences(network):
        norms = [float(homogeneous.squared_norm((layer,))) for layer in network]
        return np.diff(norms)

    config = MarginConfig(fitting_steps=4000, learning_rate=1e-3, route="none")
    end = margin.train(config, start, *data)
    grown = float(homogeneous.squared_norm(end) - homogeneous.squared_norm(start))
    assert grown > 1
    np.testing.assert_allclose(differences(end), differences(start), atol=0.02 * grown)


def test_margin_maximisation_ends_near_a_kkt_point(data, trained):
    points, labels = jnp.asarray(data[0]), jnp.asarray(data[1])
    outputs = homogeneous.apply(trained, points)
    leads = np.asarray(margin.margins(outputs, labels))[:, 0]
    np.testing.assert_allclose(leads.min(), 1, rtol=1e-4)
    norms = [float(homogeneous.squared_norm((layer,))) for layer in trained]
    np.testing.assert_allclose(norms, np.mean(norms), rtol=0.01)
    alpha = jnp.full(2, 1e4)
    directions = margin.signs(labels)[:, None].astype(jnp.float32)
    best = stationarity.best_multipliers(trained, points, directions, alpha)
    at = stationarity.passes(
        trained, points, jnp.asarray(best, jnp.float32)[:, None] * directions, alpha
    )
    left = float(stationarity.plain(trained, at).sum()) / sum(norms)
    assert left < 0.2**2
    # Only points on the margin have multipliers; these sum to |theta|^2 / (L gamma).
    assert leads[best > 0.05 * best.max()].max() < 1.05
    np.testing.assert_allclose(best.sum(), sum(norms) / 3, rtol=0.05)


def test_weight_decay_ends_where_theta_is_the_sum_of_gradients(data, start):
    """theta = -1 / (n lambda) sum of dL_i; and the multipliers' sum."""
    points, labels = jnp.asarray(data[0]), jnp.asarray(data[1])
    config = MarginConfig(
        route="weight_decay", weight_decay=3e-3, route_steps=20_000, fitting_steps=2000
    )
    network = margin.train(config, start, *data)
    outputs = homogeneous.apply(network, points)[:, 0]
    signs = margin.signs(labels)
    multipliers = jax.nn.sigmoid(-signs * outputs) / (POINTS * config.weight_decay)
    at = stationarity.passes(
        network, points, (multipliers * signs)[:, None], jnp.full(2, 1e6)
    )
    squared = float(homogeneous.squared_norm(network))
    left = np.asarray(stationarity.plain(network, at))
    # Below the last layer kinks lie on points, whose masks are neither 0 nor 1.
    assert left[-1] / squared < 1e-6
    assert left.sum() / squared < 0.2**2
    mean_lead = float(jnp.sum(multipliers * signs * outputs) / multipliers.sum())
    np.testing.assert_allclose(multipliers.sum(), squared / (3 * mean_lead), rtol=0.05)


def test_cross_entropy_of_a_few_classes_is_optax_s(rng):
    logits = jnp.asarray(3 * rng.standard_normal((9, 4)), jnp.float32)
    labels = jnp.asarray(np.arange(9) % 4)
    expected = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
    np.testing.assert_allclose(
        margin.loss("logistic", logits, labels), expected, rtol=1e-5
    )


def test_log_loss_where_the_loss_underflows():
    outputs = jnp.array([[500.0], [-400.0]])
    value = margin._log_logistic(outputs, jnp.array([1, 0]))
    np.testing.assert_allclose(value, -400 - np.log(2), rtol=1e-6)


def test_labels_out_of_range_are_named(start, data):
    with pytest.raises(ValueError, match=r"0 \.\. 1"):
        margin.train(SHORT, start, data[0], np.arange(POINTS))


def test_margins_of_squared_errors_are_refused():
    with pytest.raises(ValueError, match=r"^route is"):
        MarginConfig(loss="mse", route="sphere")


def test_the_least_loss_of_squared_errors_is_no_logarithm(rng):
    points = rng.normal(size=(20, 5))
    labels = (points[:, 0] > 0).astype(int)
    config = MarginConfig(loss="mse", route="none", least_loss=0.3, fitting_steps=4000)
    network = homogeneous.init(HomogeneousConfig(widths=(16,)), 5, jax.random.key(0))
    trained = margin.train(config, network, points.astype(np.float32), labels)
    outputs = homogeneous.apply(trained, jnp.asarray(points, jnp.float32))
    assert 0.25 < float(margin.loss("mse", outputs, jnp.asarray(labels))) <= 0.3


def test_squared_errors_are_of_one_output(rng):
    network = homogeneous.init(
        HomogeneousConfig(widths=(16,), outputs=3), 5, jax.random.key(0)
    )
    config = MarginConfig(loss="mse", route="none", fitting_steps=1)
    points = rng.normal(size=(6, 5)).astype(np.float32)
    with pytest.raises(ValueError, match="one output"):
        margin.train(config, network, points, np.arange(6) % 3)
