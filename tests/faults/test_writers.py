"""Several workers at one store, and workers that die: every order of their acts.

A worker's writing of a block is some twenty acts on a place. It is stopped, or
overtaken by another worker, before and after each one of them.
"""

import itertools

import numpy as np
import pytest

import shadow
from shadow import places
from shadow.commits import Attempt, Commit
from tests.faults import stores
from tests.faults.stores import Watched


class KilledError(BaseException):
    """What no handler of the store's catches, as kill -9."""


@pytest.fixture(params=["folder", "memory"])
def place(request, tmp_path):
    """Of either kind, new."""
    folder = tmp_path / "store"
    return places.at(folder if request.param == "folder" else f"memory://{folder}")


def acting(place, number, do, *, when):
    """A place on which something happens before or after act `number`, once."""
    count = itertools.count()

    def act(*_):
        if next(count) == number:
            do()

    return Watched(place, **{when: act})


def die():
    raise KilledError


def num_acts(place, split, victim, act):
    """Acts that a worker needs for block 1."""
    count = itertools.count()
    store = stores.create(place, split, victim)
    store.place = Watched(place, before=lambda *_: next(count))
    act(store)
    return next(count)


def finished(place, split):
    """Everything is committed, whole, and nothing is left over."""
    store = shadow.Store(place)
    assert store.missing() == []
    assert store.verify() == []
    store.remove_abandoned()
    assert store.place.names("attempts") == []
    return [stores.winner(store, split, block) for block in range(store.num_blocks)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_any_act_a_block_is_finished_by_the_next(
    tmp_path, split, victim, when
):
    acts = num_acts(
        places.at(tmp_path / "count"),
        split,
        victim,
        lambda s: stores.write(s, split, 1),
    )
    assert 10 < acts < 30
    won = []
    for number in range(acts):
        place = places.at(f"memory://{tmp_path}/{when}{number}")
        store = stores.create(place, split, victim)
        store.place = acting(place, number, die, when=when)
        with pytest.raises(KilledError):
            stores.write(store, split, 1)
        other = stores.create(place, split, victim)
        for block in other.missing():
            stores.write(other, split, block, worker=1)
        won.append(finished(place, split)[1])
    assert won[0] == 1, "nothing was put yet"
    assert won[-1] == 0, "it was committed before the kill"
    assert won == sorted(won, reverse=True), "once its weights are there, they stay"


@pytest.mark.parametrize("when", ["before", "after"])
def test_overtaken_at_any_act_both_agree(tmp_path, split, victim, when):
    """A second worker does the whole block between two acts of the first."""
    acts = num_acts(
        places.at(tmp_path / "count"),
        split,
        victim,
        lambda s: stores.write(s, split, 1),
    )
    for number in range(acts):
        place = places.at(f"memory://{tmp_path}/{when}{number}")
        first, second = (stores.create(place, split, victim) for _ in range(2))
        found = []

        def overtake(second=second, found=found):
            found.append(stores.write(second, split, 1, worker=1))

        first.place = acting(place, number, overtake, when=when)
        found.append(stores.write(first, split, 1, worker=0))
        assert found[0] == found[1], "the loser adopts the winner's commit"
        for block in (0, 2):
            stores.write(second, split, block, worker=1)
        assert finished(place, split)[1] in (0, 1)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_any_act_a_creation_is_finished_by_the_next(
    tmp_path, split, victim, when, step
):
    """Also by one of another configuration, as long as there is no block."""
    count = itertools.count()
    stores.create(
        Watched(places.at(tmp_path / "count"), before=lambda *_: next(count)),
        split,
        victim,
    )
    for number in range(0, next(count), step):
        place = places.at(f"memory://{tmp_path}/{when}{number}")
        with pytest.raises(KilledError):
            stores.create(acting(place, number, die, when=when), split, victim)
        store = stores.create(place, split, victim, block_size=20, epochs=2)
        assert store.num_blocks == 2
        for block in store.missing():
            stores.write(store, split, block)
        finished(place, split)
        assert store.damaged_metadata() == []
        np.testing.assert_array_equal(store.array("fixed_images"), split.fixed.images)


def test_a_straggler_after_the_commit_changes_nothing(place, split, victim):
    store = stores.create(place, split, victim)
    for block in store.missing():
        stores.write(store, split, block, worker=1)
    before = {name: place.get(name) for name in place.names("")}
    commit = stores.write(store, split, 2, worker=0)
    assert commit == store.committed(2)
    assert {name: place.get(name) for name in place.names("")} == before
    assert finished(place, split) == [1, 1, 1]


def test_a_lost_answer_is_not_taken_for_a_loss(place, split, victim):
    """The put arrived, its answer didn't: the second try finds its own content."""

    class Deaf(Watched):
        def put_if_absent(self, name, content):
            assert super().put_if_absent(name, content)
            return super().put_if_absent(name, content)  # as a retry reports it

    store = stores.create(place, split, victim)
    store.place = Deaf(place)
    for block in store.missing():
        commit = stores.write(store, split, block)
        assert commit.by == commit.made.id
        assert commit == store.committed(block)
    assert finished(place, split) == [0, 0, 0]


def test_a_commit_says_whose_weights_are_stored(place, split, victim):
    """One worker dies with its weights put; the next commits them as its work."""
    store = stores.create(place, split, victim)

    def die_after_the_weights(act, name):
        if act == "put_if_absent" and name.startswith("weights/"):
            die()

    store.place = Watched(place, after=die_after_the_weights)
    with pytest.raises(KilledError):
        stores.write(store, split, 0)
    (name,) = place.names("attempts")
    dead = Attempt.read(place.get(name))
    store.place = place
    commit = stores.write(store, split, 0, worker=1)
    assert commit.made == dead
    assert commit.by != dead.id
    assert stores.winner(store, split, 0) == 0


def test_data_that_nobody_announced_are_not_believed(place, split, victim, tmp_path):
    """Left by a worker of a store that was here before, or damaged: put again."""
    store = stores.create(place, split, victim)
    other = stores.create(f"memory://{tmp_path}/other", split, victim, epochs=2)
    stores.write(other, split, 0, worker=2)
    stray = "weights/c/0/0"
    place.put(stray, other.place.get(stray))
    announced = Commit.read(other.place.get("commits/000000.json")).made
    place.put(announced.name, announced.content)  # but for another store
    stores.write(store, split, 0, worker=1)
    assert stores.winner(store, split, 0) == 1
    place.put("weights/c/1/0", b"short")
    stores.write(store, split, 1)
    assert stores.winner(store, split, 1) == 0


@pytest.mark.parametrize("when", ["before", "after"])
def test_unannounced_data_met_by_two_are_never_silently_wrong(
    tmp_path, split, victim, when
):
    """The one order in which a chunk can be lost: reading says so, verifying mends."""

    def begin(address):
        place = places.at(address)
        store = stores.create(place, split, victim)
        place.put("weights/c/1/0", bytes(len(weights_of(store))))
        return place, store

    def weights_of(store):
        return stores.weights(store, 1).tobytes()

    place, store = begin(f"memory://{tmp_path}/count")
    acts = []
    store.place = Watched(place, before=lambda act, name: acts.append(act))
    stores.write(store, split, 1)
    assert acts.count("delete") == 4, "three chunks and the announcement"
    outcomes = set()
    for number in range(len(acts)):
        place, store = begin(f"memory://{tmp_path}/{when}{number}")
        second = shadow.Store(place)

        def overtake(second=second):
            stores.write(second, split, 1, worker=1)

        store.place = acting(place, number, overtake, when=when)
        stores.write(store, split, 1)
        corrupt = second.verify()
        if corrupt:
            with pytest.raises(shadow.CorruptBlockError, match=r"Block 1 .* corrupt"):
                second.read_block(1)
            second.drop_block(1)
            stores.write(second, split, 1, worker=2)
        outcomes.add(tuple(corrupt))
        assert stores.winner(second, split, 1) in (0, 1, 2)
    assert outcomes == {(), (1,)}


def test_missing_is_one_listing_however_many_blocks(place, split, victim):
    store = stores.create(place, split, victim, block_size=1)
    stores.write(store, split, 7)
    acts = []
    store.place = Watched(place, before=lambda act, name: acts.append((act, name)))
    assert len(store.missing()) == store.num_blocks - 1 == 39
    assert acts == [("names", "commits")]
