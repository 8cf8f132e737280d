"""Clipping without per-example gradients, against per-example gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from dp import gradient
from dp.gradient import PrivacyConfig


def layers(key):
    """Two dense layers with a bias each, (features, examples)."""
    keys = jax.random.split(key, 4)
    return {
        "first": {"w": jax.random.normal(keys[0], (5, 4)), "b": jnp.ones(4)},
        "second": {"w": jax.random.normal(keys[1], (4, 3)), "b": jnp.ones(3)},
    }


def tapped(inputs):
    def losses(params, taps):
        hidden = params["first"]["w"].T @ inputs + params["first"]["b"][:, None]
        active = jnp.tanh(hidden + taps["first"])
        out = params["second"]["w"].T @ active + params["second"]["b"][:, None]
        out = out + taps["second"]
        return jnp.sum(out**2, axis=0), {"first": inputs, "second": active}

    return losses


@pytest.mark.parametrize("clip_norm", [0.5, 20.0, 1e6])
@pytest.mark.parametrize("weighted", [False, True])
def test_ghost_norms_give_the_clipped_sum(clip_norm, weighted):
    with jax.enable_x64(True):
        params = layers(jax.random.key(0))
        inputs = jax.random.normal(jax.random.key(1), (5, 7))
        weights = jnp.arange(7.0) % 2 if weighted else None
        taps = {"first": jnp.zeros((4, 7)), "second": jnp.zeros((3, 7))}
        losses = functools.partial(tapped(inputs), params)
        found = gradient.clipped_sum(
            losses, params, taps, clip_norm=clip_norm, weights=weights
        )

        def loss(params, column):
            one = {"first": jnp.zeros((4, 1)), "second": jnp.zeros((3, 1))}
            return tapped(column[:, None])(params, one)[0][0]

        plain = gradient.clipped_sum_traced(
            loss, params, inputs.T, clip_norm=clip_norm, weights=weights
        )
        # And by hand.
        expected = jax.tree.map(jnp.zeros_like, params)
        for i, column in enumerate(inputs.T):
            own = jax.grad(loss)(params, column)
            length = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(own)))
            scale = min(1.0, clip_norm / float(length))
            scale *= 1.0 if weights is None else float(weights[i])
            expected = jax.tree.map(lambda e, g: e + scale * g, expected, own)  # noqa: B023
        for other in (found, plain):
            jax.tree.map(
                lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12),
                other,
                expected,
            )


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_weights_that_are_shared_by_positions_are_clipped(dtype, rng):
    """Against the gradients themselves; float16 has no squares of 1e-4."""
    inputs = rng.normal(size=(30, 5, 4)).astype(dtype)
    slopes = (1e-4 * rng.normal(size=(20, 5, 4))).astype(dtype)

    def losses(taps):
        return jnp.sum(taps["a"] * slopes, axis=(0, 2)), {"a": jnp.asarray(inputs)}

    clipped = gradient.clipped_sum(
        losses,
        {"a": {"w": jnp.zeros((2, 15, 20))}},
        {"a": jnp.zeros(slopes.shape, dtype)},
        clip_norm=1e-4,
    )["a"]
    expected = [np.zeros((30, 20)), np.zeros(20)]
    for i in range(5):
        x, slope = (values[:, i].astype(float) for values in (inputs, slopes))
        w, b = x @ slope.T, slope.sum(axis=1)
        scale = min(1, 1e-4 / np.sqrt(np.sum(w**2) + np.sum(b**2)))
        expected = [expected[0] + scale * w, expected[1] + scale * b]
    np.testing.assert_allclose(clipped["w"].reshape(30, 20), expected[0], atol=1e-8)
    np.testing.assert_allclose(clipped["b"], expected[1], atol=1e-8)


@jax.custom_vjp
def tamed(values):
    return values


tamed.defvjp(lambda values: (values, None), lambda _, slope: (jnp.clip(slope, -1, 1),))


@pytest.mark.parametrize("how", ["bfloat16", "float16", "tamed"])
def test_one_example_moves_the_sum_by_the_clipping_norm_at_most(how, rng):
    """A second backward pass, of weighted losses, would move it by up to 16 C."""
    examples = jnp.asarray(rng.random((513, 64)), jnp.float32)
    clip_norm = 0.01 if how == "tamed" else 1.0

    def loss(w, x):
        if how == "tamed":
            return 100 * jnp.sum(tamed(x @ w))
        logits = x.astype(how) @ w.astype(how)
        return -jax.nn.log_softmax(10 * logits)[0].astype(jnp.float32)

    w = jnp.asarray(rng.normal(size=(64, 10)), jnp.float32)

    def total(examples):
        return gradient.clipped_sum_traced(loss, w, examples, clip_norm=clip_norm)

    moved = jnp.linalg.norm(total(examples) - total(examples[:-1]))
    assert moved <= 1.001 * clip_norm
    assert moved > 0.5 * clip_norm  # it is clipped here


def test_noise_has_the_deviation_asked_for():
    zeros = {"a": jnp.zeros((200, 100)), "b": jnp.zeros(100)}
    noisy = gradient.add_noise(jax.random.key(0), zeros, 3.0)
    values = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(noisy)])
    assert values.std() == pytest.approx(3.0, rel=0.02)
    assert abs(values.mean()) < 0.1
    assert not np.array_equal(noisy["a"][0], noisy["b"])
    again = gradient.add_noise(jax.random.key(1), zeros, 3.0)
    assert np.abs(np.corrcoef(np.ravel(again["a"]), np.ravel(noisy["a"]))[0, 1]) < 0.03


@pytest.mark.parametrize(
    ("large", "slope"), [(1e18, 1e-19), (1e15, 1e-20), (1e4, 1e-6)]
)
def test_a_long_gradient_is_clipped_though_its_slopes_have_no_squares(large, slope):
    """In float32 the square of 1e-20 is 0; with an input of 1e15 the length is 1e-5."""
    inputs, slopes = jnp.full((1, 1), large), jnp.full((1, 1), slope)
    squared = gradient.squared_norms(inputs, slopes)
    assert np.sqrt(squared[0]) == pytest.approx(large * slope, rel=1e-5)
    factor = gradient.clip_factors(squared, 1e-6)[0]
    assert factor * large * slope <= 1e-6 * (1 + 1e-5)
    none = gradient.squared_norms(jnp.zeros((3, 2)), jnp.zeros((4, 2)))
    np.testing.assert_array_equal(none, 0)


def outcomes(steps):
    """Normal numbers of float32 as JAX makes them of a uniform draw, by its number."""
    low = np.nextafter(np.float32(-1), np.float32(0))
    uniform = steps.astype(np.float32) * np.float32(2**-23) * (1 - low) + low
    uniform = jnp.maximum(low, jnp.asarray(uniform, jnp.float32))
    return np.asarray(jnp.float32(np.sqrt(2)) * jax.lax.erf_inv(uniform))


def impossible(release, candidate, deviation):
    """How many entries can't be a normal number of float32 added to the candidate."""
    z = (release.astype(np.float64) - candidate) / deviation
    far = np.abs(z) > 2.5  # where outcomes of one draw are far apart
    nearest = np.round((special.erf(z[far] / np.sqrt(2)) + 1) / 2 * 2**23)
    possible = np.zeros(far.sum(), bool)
    for step in range(-40, 41):
        numbers = np.clip(nearest + step, 0, 2**23 - 1).astype(np.int32)
        noise = outcomes(numbers) * np.float32(deviation)
        possible |= candidate[far] + noise == release[far]
    return np.sum(~possible)


@pytest.mark.parametrize("protected", [True, False])
def test_the_last_digits_of_noise_do_not_tell_the_gradient(rng, protected):
    """Of two candidates under noise of a hundred lengths, theory allows 50.2 %.

    Noise of float32 as it comes tells which one it was, every time (Mironov 2012).
    """
    deviation, size, right = 100.0, 5000, 0
    for trial in range(20):
        rest = (rng.normal(size=size) * 5 / np.sqrt(size)).astype(np.float32)
        own = rng.normal(size=(2, size))
        own /= np.linalg.norm(own, axis=1, keepdims=True)
        totals = rest + own.astype(np.float32)
        truth = rng.integers(2)
        key = jax.random.key(trial)
        if protected:
            release = gradient.add_noise(key, {"w": totals[truth]}, deviation)["w"]
        else:
            noise = np.asarray(jax.random.normal(key, (size,))) * np.float32(deviation)
            release = totals[truth] + noise
        found = [impossible(np.asarray(release), each, deviation) for each in totals]
        right += int(np.argmin(found) == truth)
    assert right <= 17 if protected else right == 20


@given(st.floats(-30, 30), st.floats(-8, 8))
def test_a_noisy_sum_lies_on_a_public_grid(log_deviation, log_sum):
    """Whatever the sum; a large one, whose digits are farther apart, stays as it is."""
    deviation, total = 10.0**log_deviation, np.float32(10.0**log_sum)
    values = jnp.full(200, total)
    found = np.asarray(gradient.add_noise(jax.random.key(0), [values], deviation)[0])
    exponent = np.floor(np.log2(deviation)) - 10
    digits = np.spacing(np.abs(found)).astype(np.float64)
    grid = np.maximum(2.0**exponent, digits)
    np.testing.assert_array_equal(np.remainder(found.astype(np.float64), grid), 0)
    assert np.abs(found - total).max() < 6 * deviation + 2 * np.spacing(total)


def test_a_configuration_without_noise_guarantees_nothing():
    PrivacyConfig(clip_norm=1.0, noise_multiplier=10.0).require_noise()
    with pytest.raises(ValueError, match="no privacy guarantee"):
        PrivacyConfig(clip_norm=1.0).require_noise()
    with pytest.raises(ValueError, match="clip_norm is None"):
        PrivacyConfig(noise_multiplier=1.0)
    with pytest.raises(ValueError, match=r"sampling_probability > 0, got 0\.0"):
        PrivacyConfig(clip_norm=1.0, sampling_probability=0.0)


@pytest.mark.parametrize(("q", "drawn"), [(1e-8, 2**-23), (0.25, 0.25), (1.0, 1.0)])
def test_what_is_accounted_for_is_what_is_drawn(q, drawn):
    """Draws in float32 are whole multiples of 2^-23, 0 among them."""
    config = PrivacyConfig(clip_norm=1.0, noise_multiplier=1.0, sampling_probability=q)
    assert config.drawn_probability == drawn
    assert float(jnp.float32(0) < jnp.float32(q)) == 1.0  # a draw of 0 takes part


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_noise_on_few_bits_is_that_of_many(dtype, key):
    """In a type of few bits 128 normal numbers are all there are."""
    sums = {"a": jnp.zeros(4096, dtype), "b": jnp.zeros(4096, jnp.float32)}
    noisy = gradient.add_noise(key, sums, 100.0)
    assert {name: leaf.dtype for name, leaf in noisy.items()} == {
        name: leaf.dtype for name, leaf in sums.items()
    }
    wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), sums)
    many = gradient.add_noise(key, wide, 100.0)
    np.testing.assert_array_equal(noisy["a"], many["a"].astype(dtype))
    np.testing.assert_array_equal(noisy["b"], many["b"])
    # The grid of 2^-10 deviations has about 8,000 points within four of them.
    assert len(np.unique(np.asarray(noisy["b"]))) > 2500


def test_complex_sums_and_weights_of_other_lengths_are_refused(key):
    with pytest.raises(ValueError, match="Expected real sums"):
        gradient.add_noise(key, jnp.zeros(3, jnp.complex64), 1.0)
    with pytest.raises(ValueError, match=r"Expected 4 weights, got the shape \(1,\)"):
        gradient.clipped_sum_traced(
            lambda params, example: params @ example,
            jnp.ones(2),
            jnp.ones((4, 2)),
            clip_norm=1.0,
            weights=jnp.ones(1),
        )
