"""Which rows a direction leaves open, and that none of those is certified."""

import numpy as np
import pytest
from sklearn import svm

import informed
from informed.attacks import span
from informed.attacks.impossible import ReconstructionImpossibleError
from informed.attacks.span import columns, lattice, linear_fit, uniqueness
from tests.informed.attacks.span.test_single_row import fitted, genotypes, traits


@pytest.mark.parametrize("seed", [17, 18, 19])
def test_messages_reach_where_rounding_settles_on_wrong_rows(seed):
    rows = genotypes(seed, rows=181, features=500)
    model = fitted("logistic", rows, traits(rows, seed))
    known = rows[:-1]
    direction = span.read(model.coef_, known)
    space = lattice.Lattice(direction, known, columns.of(known))
    settled = [row * space.scale for row in lattice.messages(space)]
    assert min(np.abs(row - rows[-1]).max() for row in settled) < 0.5
    completion = span.complete(direction, known)
    assert np.array_equal(completion.row, rows[-1])
    assert completion.certified


def test_a_row_that_may_have_a_known_one_added_is_not_the_only_one():
    rng = np.random.default_rng(20)
    rows = (rng.random((40, 300)) < 0.5).astype(float)
    values = columns.of(rows)
    assert not uniqueness.possible(rows[-1], rows[:-1], values)
    rows[0] = (1 - rows[-1]) * (rng.random(300) < 0.05)
    assert uniqueness.possible(rows[-1], rows[:-1], values)
    # And the other way: what holds a known row may be the rest.
    assert uniqueness.possible(rows[-1] + rows[0], rows[:-1], values)


@pytest.mark.parametrize("kind", ["ones", "parents", "double"])
@pytest.mark.parametrize("seed", range(4))
def test_mirrors_and_multiples_are_not_called_the_row(kind, seed):
    """Neither sign nor length of a direction is known."""
    rng = np.random.default_rng(seed)
    rows = (rng.random((50, 400)) < 0.5).astype(float)
    if kind == "ones":
        rows[3] = 1
    elif kind == "parents":
        parent = 2 * rows[0]
        rows = rng.binomial(2, 0.5, (50, 400)).astype(float)
        rows[:2] = parent, 2 - parent
    else:
        rows = genotypes(seed, rows=50, features=400)
        rows[-1] = np.minimum(rows[-1], 1)
    model = fitted("logistic", rows, traits(rows, seed))
    direction = span.read(model.coef_, rows[:-1])
    completion = span.complete(direction, rows[:-1])
    assert not completion.certified
    # A refit tells them apart.
    answer = informed.reconstruct_sklearn(model, rows[:-1], traits(rows, seed)[:-1])
    assert not answer.certified or np.abs(answer.value - rows[-1]).max() < 1e-6


@pytest.mark.parametrize("seed", range(8))
def test_tables_of_few_categories_are_not_told_apart(seed):
    """Longer exchanges of known rows give other categories."""
    rng = np.random.default_rng(seed)
    blocks = []
    for count in (30, 40, 50):
        share = 1 / np.arange(1, count + 1)
        picked = rng.choice(count, 41, p=share / share.sum())
        blocks.append(np.eye(count)[picked])
    rows = np.hstack(blocks)
    model = fitted("logistic", rows, traits(rows, seed))
    try:
        direction = span.read(model.coef_, rows[:-1])
    except ReconstructionImpossibleError:
        return
    completion = span.complete(direction, rows[:-1])
    assert completion is None or not completion.certified


def test_one_known_row_and_equal_ones_do_not_fail():
    for known in (np.ones((1, 30)), np.tile(np.arange(30.0) % 3, (3, 1))):
        rows = np.vstack([known, np.arange(30.0) % 2])
        completion = span.complete(span.read(np.ones(len(rows)) @ rows, known), known)
        assert completion is None or not completion.certified


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_sum_of_two_missing_rows_is_not_certified(classes, seed):
    """A hinge loss gives them equal weight, in all outputs."""
    rng = np.random.default_rng(seed)
    rows = rng.poisson(0.1, (41, 700)).astype(float)
    labels = np.arange(41) % classes
    labels[-2:] = 0
    model = svm.LinearSVC(loss="hinge", C=0.01, random_state=0, max_iter=100_000)
    known = rows[:-2]
    direction = span.read(model.fit(rows, labels).coef_, known)
    if direction.rank == 1:
        completion = span.complete(direction, known)
        assert completion is None or not completion.certified
    row, _ = linear_fit.read(model, known, labels[:-2])
    assert row is None or not row.certified
