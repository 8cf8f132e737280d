"""A bucket that answers 500, 503, 409, 412, late, or not at all, now and then."""

import time

import pytest

import shadow
from shadow import places
from tests.faults import proxy, stores


@pytest.fixture
def through(bucket, s3_endpoint, monkeypatch):
    """Makes the bucket be reached through a faulty proxy."""
    opened = []

    def made(**settings):
        monkeypatch.setattr(places, "_FIRST_PAUSE", 0.01)
        opened.append(proxy.FaultyProxy(s3_endpoint, **settings))
        monkeypatch.setenv("AWS_ENDPOINT", opened[-1].endpoint)
        monkeypatch.setenv("AWS_TIMEOUT", "500ms")
        return opened[-1]

    yield made
    for each in opened:
        each.close()


def filled(address, split, victim, block_size):
    """A store of two workers, one after another at every block."""
    first, second = (
        stores.create(address, split, victim, block_size=block_size) for _ in range(2)
    )
    for block in first.missing():
        if block % 3:
            stores.write(first, split, block, worker=1)
        stores.write(second, split, block, worker=2)
    return first


@pytest.mark.parametrize(
    "block_size", [8, pytest.param(1, marks=pytest.mark.slow)], ids=str
)
def test_a_store_is_made_and_read_through_all_of_them(
    bucket, s3_endpoint, through, split, victim, monkeypatch, block_size
):
    faulty = through(rate=0.2)
    store = filled(f"{bucket}/store", split, victim, block_size)
    assert store.missing() == store.verify() == []
    assert all(faulty.counts[fault] > 1 for fault in proxy.FAULTS), faulty.counts
    monkeypatch.setenv("AWS_ENDPOINT", s3_endpoint)
    calm = shadow.Store(f"{bucket}/store")
    assert calm.missing() == calm.verify() == calm.damaged_metadata() == []
    for block in range(calm.num_blocks):
        assert stores.winner(calm, split, block) == (1 if block % 3 else 2)
    calm.remove_abandoned()
    assert calm.place.names("attempts") == []


@pytest.mark.parametrize("fault", proxy.FAULTS)
def test_each_alone_changes_no_act(bucket, through, fault):
    """Of all requests three in ten fail so; every act still does what it says.

    Of puts, which alone can meet a conflict, every second.
    """
    faulty = through(rate=0.5 if fault.startswith("4") else 0.3, faults=(fault,))
    place = places.at(f"{bucket}/{fault}")
    for number in range(4):
        place.put_if_absent(f"a/{number}", b"first")
        place.put_if_absent(f"a/{number}", b"second")
        assert place.get(f"a/{number}") == b"first"
    assert place.get("a/absent") is None
    assert not place.has("a/absent")
    assert place.names("a") == [f"a/{number}" for number in range(4)]
    place.delete("a/3")
    assert not place.has("a/3")
    assert faulty.counts[fault] > 0


def test_a_bucket_that_stays_away_is_one_line(bucket, through, monkeypatch):
    monkeypatch.setattr(places, "_TRIES", 2)
    through(rate=1.0, faults=("500",))
    for what, act in (
        ("put a/b", lambda place: place.put_if_absent("a/b", b"x")),
        ("get a/b", lambda place: place.get("a/b")),
        ("list a", lambda place: place.names("a")),
    ):
        with pytest.raises(OSError, match=f"Could not {what} in s3://") as error:
            act(places.at(f"{bucket}/away"))
        assert "\n" not in str(error.value)
        assert "500" in str(error.value)
        assert "the same command goes on" in str(error.value)


def test_a_worker_cut_off_goes_on_later(bucket, s3_endpoint, through, split, victim):
    """Every request fails from some moment on: nothing is committed by half."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "_TRIES", 2)
        store = stores.create(f"{bucket}/store", split, victim)
        through(rate=1.0, faults=("broken",))
        cut_off = places.at(f"{bucket}/store")
        count = 0

        class UntilCut(stores.Watched):
            def _act(self, act, name, *arguments):
                nonlocal count
                count += 1
                self.place = cut_off if count > 6 else self.place
                return super()._act(act, name, *arguments)

        calm, store.place = store.place, UntilCut(store.place)
        with pytest.raises(OSError, match="Could not"):
            stores.write(store, split, 0, worker=1)
        store.place = calm
        assert store.missing() == [0, 1, 2]
        for block in store.missing():
            stores.write(store, split, block, worker=2)
        assert [stores.winner(store, split, b) for b in range(3)] == [1, 2, 2]


def test_time_is_not_wasted_on_what_will_never_work(bucket):
    """A missing bucket is not tried for half a minute."""
    pauses = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", pauses.append)
        with pytest.raises(OSError, match="Create the bucket"):
            shadow.Store("s3://no-such-bucket/x")
    assert pauses == []
