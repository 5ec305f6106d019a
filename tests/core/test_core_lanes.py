"""The place of a job in its lane: it stands there once, whatever becomes of it meanwhile.

A job that is ready no more stays where it stood as a ghost. One that is ready again lives on in its old
place; one whose ghost is gone by then starts at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, Hall, Person, name_of
from hypothesis import given, settings
from hypothesis import strategies as st

from hiringhall.core.lanes import _SWEEP_MIN
from hiringhall.core.states import CANCELLED, FAILED, HELD, QUEUED
from hiringhall.core.terms import HIGH, LOW, NORMAL, Terms

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job

BY_PRIORITY = {
    priority: Terms(priority=priority, durable=True, detached=True) for priority in (HIGH, NORMAL, LOW)
}
MANY = 200
"""Far more ghosts than a lane bears."""


def gate(hall: Hall, name: str = "gate") -> Job:
    """A job of another queue that others can be made to wait for."""
    return hall.submit(name, "gates", key=name, terms=BACKGROUND)


def hold(hall: Hall, gate: Job, *jobs: Job) -> None:
    for job in jobs:
        hall.core.dependencies.depend(job, (gate.id,))
    hall.turn()


def open_gate(hall: Hall, name: str = "gate") -> None:
    hall.core.finish(hall.worker("porter", "gates").takes(name), b"")
    hall.turn()


def order(hall: Hall) -> list[str]:
    return [name_of(job) for lane in hall.core.queue(b"q").lanes for job in lane.waiting()]


def take_all(worker: Person) -> list[str]:
    taken = []
    while name := worker.takes_from("q"):
        taken.append(name)
        worker.hall.turn()
    return taken


def submit_all(hall: Hall, names: str) -> dict[str, Job]:
    return {name: hall.submit(name, key=name, terms=BACKGROUND) for name in names}


@pytest.mark.parametrize("held", ["a", "b", "c", "ab", "bc", "abc", "ac"])
def test_who_waits_and_is_ready_again_has_kept_its_place(hall: Hall, held: str) -> None:
    jobs = submit_all(hall, "abc")
    hold(hall, gate(hall), *[jobs[name] for name in held])
    assert order(hall) == [name for name in "abc" if name not in held]
    assert all(jobs[name].in_lane for name in "abc")
    open_gate(hall)
    assert take_all(hall.worker("bob")) == ["a", "b", "c"]


def test_who_was_passed_while_it_waited_starts_at_the_end(hall: Hall) -> None:
    bob = hall.worker("bob")
    jobs = submit_all(hall, "abcd")
    hold(hall, gate(hall), jobs["a"], jobs["c"])
    bob.takes("b")
    assert not jobs["a"].in_lane
    assert jobs["c"].in_lane
    open_gate(hall)
    assert take_all(bob) == ["c", "d", "a"]


def test_a_job_comes_and_goes_many_times_and_stands_in_its_lane_once(hall: Hall) -> None:
    jobs = submit_all(hall, "abc")
    for number in range(MANY):
        hold(hall, gate(hall, str(number)), jobs["b"])
        assert hall.core.queue(b"q").ready == 2
        open_gate(hall, str(number))
        assert hall.core.queue(b"q").ready == 3
    assert take_all(hall.worker("bob")) == ["a", "b", "c"]


def test_a_sweep_takes_the_places_of_those_who_wait(hall: Hall) -> None:
    jobs = [hall.submit(str(number), key=str(number), terms=BACKGROUND) for number in range(MANY)]
    hold(hall, gate(hall), *jobs[1:])
    swept = [job for job in jobs if not job.in_lane]
    assert len(swept) > MANY // 2, "the lane was swept"
    assert jobs[0].in_lane
    open_gate(hall)
    taken = take_all(hall.worker("bob"))
    assert sorted(map(int, taken)) == list(range(MANY))
    assert taken[0] == "0"


def test_a_sweep_by_cancels_takes_the_place_of_one_who_waits(hall: Hall) -> None:
    jobs = [hall.submit(str(number), key=str(number), terms=BACKGROUND) for number in range(MANY)]
    hold(hall, gate(hall), jobs[100])
    for job in (*jobs[:100], *jobs[101:-2]):
        hall.core.cancel(job)
    hall.turn()
    assert not jobs[100].in_lane
    open_gate(hall)
    assert take_all(hall.worker("bob")) == [str(MANY - 2), str(MANY - 1), "100"]


def test_a_ghost_that_is_cancelled_stays_dead(hall: Hall) -> None:
    jobs = submit_all(hall, "abc")
    hold(hall, gate(hall), jobs["a"], jobs["b"])
    hall.core.cancel(jobs["b"])
    hall.turn()
    assert jobs["b"].state == CANCELLED
    open_gate(hall)
    again = hall.submit("again", key="b", terms=BACKGROUND)
    assert again is not jobs["b"]
    assert take_all(hall.worker("bob")) == ["a", "c", "again"]


@pytest.mark.parametrize("surfaced", [False, True])
def test_a_dead_letter_that_was_a_ghost_is_retried(hall: Hall, surfaced: bool) -> None:
    bob = hall.worker("bob")
    jobs = submit_all(hall, "abc")
    hold(hall, gate(hall), jobs["a"])
    hall.core.fail(hall.worker("porter", "gates").takes("gate"))
    hall.turn()
    assert jobs["a"].state == FAILED
    assert order(hall) == ["b", "c"]
    if surfaced:
        bob.takes("b")
    hall.core.retry(jobs["a"])
    hall.turn()
    assert take_all(bob) == (["c", "a"] if surfaced else ["a", "b", "c"])


@pytest.mark.parametrize("between", ["", "new queue"])
def test_a_dead_letter_whose_queue_is_gone_is_retried(hall: Hall, between: str) -> None:
    job = hall.submit("a", key="a", terms=BACKGROUND)
    old = job.queue
    hold(hall, gate(hall), job)
    hall.core.fail(hall.worker("porter", "gates").takes("gate"))
    hall.commit()
    assert job.in_lane
    hall.core.length_limits.drop(old)
    if between:
        hall.submit("b", terms=BACKGROUND)
    hall.core.retry(job)
    hall.turn()
    assert job.queue is not old
    assert take_all(hall.worker("bob")) == (["b", "a"] if between else ["a"])


@pytest.mark.parametrize("priority", [HIGH, NORMAL, LOW])
def test_a_ghost_counts_only_in_its_own_lane(hall: Hall, priority: int) -> None:
    jobs = [hall.submit(f"{number}", key=f"{number}", terms=BY_PRIORITY[number % 3]) for number in range(9)]
    hold(hall, gate(hall), *[job for job in jobs if job.terms.priority == priority])
    rest = [str(number) for lane in range(3) if lane != priority for number in range(lane, 9, 3)]
    assert order(hall) == rest
    assert hall.core.queue(b"q").lanes[priority].ready == 0
    bob = hall.worker("bob")
    bob.takes(rest[0])
    open_gate(hall)
    taken = take_all(bob)
    assert taken == [name for lane in range(3) for name in map(str, range(lane, 9, 3)) if name != rest[0]]


def test_a_job_given_back_goes_before_a_ghost(hall: Hall) -> None:
    bob = hall.worker("bob")
    jobs = submit_all(hall, "abc")
    lease = bob.takes("a")
    hold(hall, gate(hall), jobs["b"])
    hall.core.release(lease)
    hold(hall, gate(hall, "second"), jobs["a"])
    assert order(hall) == ["c"]
    open_gate(hall)
    open_gate(hall, "second")
    assert take_all(bob) == ["a", "b", "c"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "hold", "free", "free", "cancel", "take", "give back", "fail gate"]),
        st.integers(0, 1000),
    ),
    max_size=100,
)


class LaneModel:
    """One lane as a plain list, ghosts and all; a ghost goes when it surfaces, or when there are too many."""

    def __init__(self) -> None:
        self.standing: list[Job] = []

    def enter(self, job: Job, *, front: bool = False) -> None:
        if job not in self.standing:
            self.standing.insert(0 if front else len(self.standing), job)

    def next(self) -> Job | None:
        """While none is ready, nobody looks, and ghosts stay."""
        if all(job.state != QUEUED for job in self.standing):
            return None
        while self.standing[0].state != QUEUED:
            del self.standing[0]
        return self.standing[0]

    def ghost(self) -> None:
        living = [job for job in self.standing if job.state == QUEUED]
        ghosts = len(self.standing) - len(living)
        if ghosts > _SWEEP_MIN and ghosts > len(living):
            self.standing = living


@settings(max_examples=settings().max_examples * 3 // 5, deadline=None, derandomize=True, database=None)
@given(crowd=st.sampled_from([0, 5, 80, 150]), steps=STEPS)
def test_a_lane_is_like_a_plain_list(crowd: int, steps: list[tuple[str, int]]) -> None:
    hall, model = Hall(), LaneModel()
    bob, porter = hall.worker("bob"), hall.worker("porter", "gates")
    gates: dict[int, Job] = {}

    def come() -> None:
        name = str(len(hall.core.jobs) + hall.core.counters.done)
        model.enter(hall.submit(name, terms=BACKGROUND))

    for _ in range(crowd):
        come()
    for verb, number in steps:
        queue = hall.core.queue(b"q")
        live = [job for job in hall.core.jobs.values() if job.queue is queue]
        chosen = live[number % len(live)] if live else None
        if verb == "submit" or chosen is None:
            come()
        elif verb == "hold":
            for job in live[number % len(live) :][: number // 5]:
                if job.state == QUEUED:
                    gates[job.id] = gate(hall, f"gate {job.id}")
                    hall.core.dependencies.depend(job, (gates[job.id].id,))
                    model.ghost()
        elif verb in ("free", "fail gate") and chosen.state == HELD:
            opened = gates.pop(chosen.id)
            while opened.lease is None:
                assert hall.core.take(porter.me) is not None
            lease = opened.lease
            if verb == "free":
                hall.core.finish(lease, b"")
            else:
                hall.core.fail(lease)
                hall.turn()
                hall.core.retry(chosen)
            for other in list(porter.me.leases.values()):
                hall.core.release(other)
            model.enter(chosen)
        elif verb == "cancel":
            was_queued = chosen.state == QUEUED
            hall.core.cancel(chosen)
            if was_queued:
                model.ghost()
        elif verb == "take":
            expected = model.next()
            taken = hall.core.take(bob.me)
            assert (taken.job if taken is not None else None) is expected
            if expected is not None:
                del model.standing[0]
        elif verb == "give back" and bob.me.leases:
            lease = list(bob.me.leases.values())[number % len(bob.me.leases)]
            hall.core.release(lease)
            model.enter(lease.job, front=True)
        hall.turn()
        bob.heard.clear()
        assert hall.core.queue(b"q").lanes[NORMAL].waiting() == [
            job for job in model.standing if job.state == QUEUED
        ]
