"""A worker gives its job back because something else has to be done first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, SECOND_US, Disk, Hall, defer, refused

from hiringhall.core.errors import BAD_REQUEST, CYCLE, STALE_LEASE, STORE_DOWN, TOO_LARGE
from hiringhall.core.limits import Limits
from hiringhall.core.states import CANCELLED, DONE, FAILED, HELD, LEASED, QUEUED
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job, ParentRef

UNBORN: ParentRef = (b"q", b"unborn")


def submit(hall: Hall, name: str, *parents: ParentRef, terms: Terms = BACKGROUND) -> Job:
    """Each job's key is its name."""
    return hall.submit(name, key=name, parents=parents, terms=terms)


def test_the_job_is_ready_again_once_the_others_are_done(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = submit(hall, "job")
    lease = bob.takes("job")
    first = [submit(hall, name) for name in ("first", "second")]
    submit(hall, "last")
    defer(hall.core, lease, (first[0].id, (b"q", b"second")))
    hall.turn()
    assert (job.state, job.losses, job.attempts, job.lease) == (HELD, 0, 1, None)
    assert (hall.core.counters.released, hall.core.counters.lost) == (1, 0)
    assert bob.me.leases == {}
    hall.core.finish(bob.takes("first"), b"")
    hall.after(5)
    hall.core.finish(bob.takes("second"), b"")
    hall.turn()
    assert (job.state, job.ready_us) == (QUEUED, hall.core.now_us)
    assert sorted([bob.takes_from("q"), bob.takes_from("q")]) == ["job", "last"]
    assert (job.attempts, job.state) == (2, LEASED)


def test_a_job_whose_further_parents_are_met_comes_after_all_that_are_ready(hall: Hall) -> None:
    bob = hall.worker("bob")
    done = submit(hall, "done")
    hall.core.finish(bob.takes("done"), b"")
    job = submit(hall, "job")
    submit(hall, "next")
    defer(hall.core, bob.takes("job"), (done.id, (b"q", b"done")))
    hall.turn()
    assert (job.state, job.ready_us) == (QUEUED, 0)
    bob.takes("next")
    bob.takes("job")


def test_a_parent_that_failed_takes_it_along(hall: Hall) -> None:
    bob = hall.worker("bob")
    parent, job = submit(hall, "parent"), submit(hall, "job")
    hall.core.fail(bob.takes("parent"))
    defer(hall.core, bob.takes("job"), (parent.id,))
    hall.turn()
    assert job.state == FAILED


def test_nobody_is_woken_for_a_job_that_waits(hall: Hall) -> None:
    bob, carl = hall.worker("bob"), hall.worker("carl")
    submit(hall, "job")
    lease = bob.takes("job")
    carl.sleeps()
    defer(hall.core, lease, (UNBORN,))
    hall.turn()
    carl.hears()


def test_a_foreground_job_that_nobody_waits_for_ends(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    job = hall.submit("job", by=ann)
    lease = bob.takes("job")
    ann.leaves()
    defer(hall.core, lease, (UNBORN,))
    hall.turn()
    assert (job.state, job.parents, hall.core.graph.expected) == (CANCELLED, None, {})


def test_what_a_resident_defers_is_nobodys(hall: Hall) -> None:
    disk = Disk()
    job = submit(hall, "job")
    lease = hall.core.take(hall.core.residents.get(b"q", b"rosa"))
    assert lease is not None
    disk.apply(hall.commit())
    assert disk.live[job.id].holder == b"rosa"
    defer(hall.core, lease, (UNBORN,))
    disk.apply(hall.commit())
    row = disk.live[job.id]
    assert (row.state, row.holder, row.parents, row.attempts) == (HELD, b"", (UNBORN,), 1)
    disk.compare(hall.core)


def test_the_timers_of_a_lease_that_was_deferred_call_nobody(hall: Hall) -> None:
    bob = hall.worker("bob")
    terms = Terms(durable=True, detached=True, lease_us=SECOND_US, run_us=SECOND_US)
    job = submit(hall, "job", terms=terms)
    defer(hall.core, bob.takes("job"), (UNBORN,))
    hall.after(10 * SECOND_US)
    bob.hears()
    assert (job.state, job.losses, job.failures) == (HELD, 0, 0)


@pytest.mark.parametrize(
    ("refs", "reason"),
    [
        ((UNBORN, (b"q", b"job")), BAD_REQUEST),
        ((UNBORN, 12345), BAD_REQUEST),
        ((UNBORN, (b"q", b"child")), CYCLE),
        (((b"q", b"a"), (b"q", b"b"), (b"q", b"c"), (b"q", b"d")), TOO_LARGE),
    ],
)
def test_a_refusal_leaves_the_job_with_its_worker(refs: tuple[ParentRef, ...], reason: str) -> None:
    hall = Hall(Limits(parents_max=3))
    bob = hall.worker("bob")
    job = submit(hall, "job")
    submit(hall, "child", job.id)
    lease = bob.takes("job")
    hall.commit()
    with refused(reason):
        defer(hall.core, lease, refs)
    hall.turn()
    assert (job.state, job.lease, hall.core.graph.expected) == (LEASED, lease, {})
    assert hall.core.counters.released == 0
    assert hall.commit().empty
    hall.core.finish(lease, b"")
    assert job.state == DONE
    hall.close()


def test_a_store_in_trouble_leaves_the_job_with_its_worker(hall: Hall) -> None:
    job = submit(hall, "job")
    lease = hall.worker("bob").takes("job")
    hall.commit()
    hall.core.table.store_trouble = "disk full"
    with refused(STORE_DOWN):
        defer(hall.core, lease, (UNBORN,))
    assert job.lease is lease


def test_only_the_live_lease_can_be_deferred(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = submit(hall, "job")
    lease = bob.takes("job")
    hall.core.release(lease)
    with refused(STALE_LEASE):
        defer(hall.core, lease, (UNBORN,))
    again = bob.takes("job")
    with refused(STALE_LEASE):
        defer(hall.core, lease, (UNBORN,))
    hall.turn()
    assert job.lease is again


def test_a_job_deferred_many_times_stands_in_its_lane_once(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = submit(hall, "job")
    for number in range(100):
        lease = bob.takes("job")
        submit(hall, str(number))
        defer(hall.core, lease, ((b"q", str(number).encode()),))
        hall.turn()
        hall.core.finish(bob.takes(str(number)), b"")
        hall.turn()
    assert (job.attempts, job.losses) == (100, 0)
