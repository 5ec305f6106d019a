"""A brief call, whose submitter waits for its end, is one commit: the submit waits a moment for the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiringhall.core.jobs import JobSpec
from hiringhall.engine.deadlines import GROUP_COMMIT_US, NEVER
from hiringhall.engine.grouping import CALL_US, CALLS_MAX
from stage.talker import BACKGROUND, FOREGROUND, WATCHED, TalkerHall, submit

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.leases import Lease
    from stage.talker import Talker, Wire

BRIEF_US = 200
COMMIT_US = 500


class CallHall(TalkerHall):
    """Ann calls, Bob works. The hall knows how long a job of the queue and a commit take; 0: it does not."""

    def __init__(self, run_us: int = BRIEF_US, commit_us: int = COMMIT_US) -> None:
        super().__init__()
        self.ann, self.ann_wire = self.peer("ann")
        self.bob, _ = self.worker("bob")
        if run_us:
            with self.turn():
                self.submit(self.ann, "known", FOREGROUND)
                lease = self.take(self.bob)
            with self.turn(after_us=run_us):
                self.scheduler.finish(lease, b"")
        if commit_us:
            with self.turn():
                self.engine.probe()
            with self.turn(after_us=commit_us):
                self.commit()
        self.ann_wire.said()

    def call(self, name: str, peer: Talker | None = None) -> Lease:
        """Inside a turn: a call that begins at once."""
        self.submit(peer or self.ann, name, WATCHED)
        return self.take(self.bob)

    @property
    def waits(self) -> bool:
        """A commit is held back."""
        return self.requests.under_way() is None and self.engine.deadlines.group_us != NEVER


def test_the_submit_and_the_end_of_a_brief_call_are_one_commit_and_one_write() -> None:
    hall = CallHall()
    with hall.turn():
        lease = hall.call("a")
    assert hall.waits
    assert hall.ann_wire.said() == []
    with hall.turn(after_us=BRIEF_US):
        hall.scheduler.finish(lease, b"r")
    batch = hall.requests.under_way()
    assert batch is not None
    assert (batch.inserts, batch.deletes) == ([], [])
    assert [row.result for row in batch.ends] == [b"r"]
    hall.turn_that_commits()
    assert hall.ann_wire.said() == ["accepted a|ended a|"]
    hall.is_at_rest()


def test_the_wait_for_the_end_of_a_call_is_bounded() -> None:
    hall = CallHall()
    with hall.turn():
        hall.call("a")
    assert hall.engine.next_deadline() == hall.now_us + COMMIT_US
    with hall.turn(after_us=COMMIT_US - 1):
        pass
    assert hall.waits
    with hall.turn():
        pass
    batch = hall.requests.under_way()
    assert batch is not None
    assert [row.payload for row in batch.inserts] == [b"a"]
    hall.turn_that_commits()
    assert hall.ann_wire.said() == ["accepted a|"]


def test_if_the_commit_of_a_call_fails_neither_its_submit_nor_its_end_is_told() -> None:
    hall = CallHall()
    with hall.turn():
        lease = hall.call("a")
    with hall.turn(after_us=BRIEF_US):
        hall.scheduler.finish(lease, b"")
    hall.turn_that_fails()
    assert hall.ann_wire.said() == ["refused a: disk full|"]


def _submit_in_the_background(hall: CallHall) -> None:
    hall.submit(hall.ann, "b", BACKGROUND)


def _submit_what_has_no_worker(hall: CallHall) -> None:
    submit(hall.scheduler, hall.ann, JobSpec(b"others", b"b", b"", WATCHED))


def _wait_for_something_else(hall: CallHall) -> None:
    hall.ann.pledge(b"done|")


def _let_another_peer_wait(hall: CallHall) -> None:
    eve, _ = hall.peer("eve")
    hall.submit(eve, "b", BACKGROUND)


def _call_too_often(hall: CallHall) -> None:
    for number in range(CALLS_MAX):
        hall.call(str(number))


def _lose_the_worker(hall: CallHall) -> None:
    hall.engine.leave(hall.bob)


def _close(hall: CallHall) -> None:
    hall.scheduler.close()


@pytest.mark.parametrize(
    "also",
    [
        _submit_in_the_background,
        _submit_what_has_no_worker,
        _wait_for_something_else,
        _let_another_peer_wait,
        _call_too_often,
        _lose_the_worker,
        _close,
    ],
)
@pytest.mark.parametrize("later", [False, True])
def test_who_waits_for_anything_else_is_not_kept_waiting_by_a_call(
    also: Callable[[CallHall], None], *, later: bool
) -> None:
    hall = CallHall()
    with hall.turn():
        hall.call("a")
        if not later:
            also(hall)
    if later:
        assert hall.waits
        with hall.turn():
            also(hall)
    assert hall.requests.under_way() is not None


@pytest.mark.parametrize(
    ("run_us", "commit_us", "waits"),
    [
        (0, 500, False),
        (1, 500, True),
        (499, 500, True),
        (500, 500, False),
        (200, 0, False),
        (CALL_US - 1, 10 * CALL_US, True),
        (CALL_US, 10 * CALL_US, False),
    ],
)
def test_only_a_job_that_usually_ends_before_a_commit_would_return_is_waited_for(
    run_us: int, commit_us: int, *, waits: bool
) -> None:
    hall = CallHall(run_us, commit_us)
    with hall.turn():
        hall.call("a")
    assert hall.waits is waits
    assert (hall.requests.under_way() is None) is waits


def test_a_peer_whose_call_has_ended_does_not_wait_for_the_call_of_another() -> None:
    hall = CallHall()
    eve, _ = hall.peer("eve")
    with hall.turn():
        lease = hall.call("a")
    with hall.turn():
        hall.call("b", eve)
    assert hall.waits
    with hall.turn():
        hall.scheduler.finish(lease, b"")
    batch = hall.requests.under_way()
    assert batch is not None
    assert ([row.payload for row in batch.ends], [row.payload for row in batch.inserts]) == ([b"a"], [b"b"])


def test_several_calls_of_one_peer_share_the_commit() -> None:
    hall = CallHall()
    with hall.turn():
        leases = [hall.call("a"), hall.call("b")]
    for lease in leases:
        assert hall.waits
        with hall.turn():
            hall.scheduler.finish(lease, b"")
    hall.turn_that_commits()
    assert hall.ann_wire.said() == ["accepted a|accepted b|ended a|ended b|"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["call", "submit", "take", "finish", "fail"]),
        st.integers(0, 1),
        st.integers(1, 2 * COMMIT_US),
    ),
    max_size=30,
)


@given(STEPS)
def test_a_submit_is_answered_in_time_whatever_becomes_of_the_jobs(steps: list[tuple[str, int, int]]) -> None:
    """The store answers at once here, so that all waiting is that of group commit."""
    hall = CallHall()
    hall.held = False
    peers = [(hall.ann, hall.ann_wire), hall.peer("eve")]
    leases: list[Lease] = []
    asked_us: list[tuple[str, Wire, int]] = []
    for number, (step, who, after_us) in enumerate(steps):
        hall.wait(after_us)
        peer, wire = peers[who]
        hall.begin()
        if step in ("call", "submit"):
            hall.submit(peer, f"{number}.", WATCHED if step == "call" else BACKGROUND)
            asked_us.append((f"accepted {number}.|", wire, hall.now_us))
        if step in ("call", "take"):
            lease = hall.scheduler.take(hall.scheduler.worker(hall.bob))
            leases += [lease] if lease is not None else []
        elif leases and step == "finish":
            hall.scheduler.finish(leases.pop(), b"")
        elif leases and step == "fail":
            hall.scheduler.fail(leases.pop())
        hall.end()
        for text, told, since_us in asked_us:
            late_us = hall.now_us - since_us
            assert late_us < CALL_US + GROUP_COMMIT_US or text.encode() in b"".join(told.written)
