"""A client that asks for a job which has ended, or watches it: it hears only what is on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hiringhall.core.limits import Limits
from stage.native import NativeHall

if TYPE_CHECKING:
    from stage.native import NativeGuest


def assigned(frames: list[tuple[str, int, Any]]) -> int:
    """The lease of the only assignment among these frames."""
    (lease,) = [body[0] for kind, _, body in frames if kind == "assign"]
    return int(lease)


@pytest.mark.parametrize(("kind", "more"), [("job", ()), ("watch", (1,))])
def test_an_end_is_told_when_it_is_on_disk(
    hall: NativeHall, guest: NativeGuest, kind: str, more: tuple[int, ...]
) -> None:
    ((_, _, (job,)),) = guest.submits(b"a")
    bob = hall.guest()
    lease = assigned(bob.works())
    hall.held = True
    bob.says("finish", (lease, b"result"))
    assert guest.says(kind, (job, *more), 7) == []
    hall.held = False
    hall.settle()
    answer, *rest = guest.hears()
    assert (answer[:2], answer[2]["state"], answer[2]["result"]) == (("ok", 7), "done", b"result")
    assert rest == ([("ended", 0, [job, "done", 0, b"result"])] if more else [])


def test_a_dead_letter_that_is_retried_while_the_history_is_asked_is_watched() -> None:
    hall = NativeHall(limits=Limits(ended_max=10))
    guest, bob = hall.guest(), hall.guest()
    ((_, _, (job,)),) = guest.submits(b"a")
    bob.says("fail", (assigned(bob.works()), 1, b"", False))
    hall.settle()
    bob.hears()
    hall.held = True
    assert guest.says("watch", (job, 1), 7) == []
    bob.says("retry", (job,), 9)
    hall.held = False
    hall.settle()
    ((kind, number, described),) = guest.hears()
    assert (kind, number, described["state"]) == ("ok", 7, "leased")
    bob.says("finish", (assigned(bob.hears()), b"at last"))
    hall.settle()
    assert guest.hears() == [("ended", 0, [job, "done", 0, b"at last"])]


def test_a_submit_that_the_store_fails_watches_none_of_its_jobs(hall: NativeHall, guest: NativeGuest) -> None:
    bob = hall.guest()
    bob.submits(b"old")
    hall.settle()
    hall.held = True
    assert guest.submits(b"new", b"old", watch=1) == []
    bob.says("finish", (assigned(bob.works()), b"result"))
    hall.turn_that_fails()
    hall.recover()
    assert [(kind, body[0]) for kind, _, body in guest.hears()] == [("error", "store_down")]
    hall.settle()
    assert guest.hears() == []


def test_a_watch_that_is_refused_after_the_history_was_asked_is_told() -> None:
    hall = NativeHall(limits=Limits(ended_max=10, watchers_max=1))
    guest, bob = hall.guest(), hall.guest()
    ((_, _, (job,)),) = guest.submits(b"a")
    bob.says("fail", (assigned(bob.works()), 1, b"", False))
    hall.settle()
    bob.hears()
    hall.held = True
    assert guest.says("watch", (job, 1), 7) == []
    bob.says("retry", (job,), 9)
    bob.says("watch", (job, 1), 10)
    hall.held = False
    hall.settle()
    assert [(kind, number, body[0]) for kind, number, body in guest.hears()] == [("error", 7, "hall_full")]


def test_a_watch_of_a_job_that_is_withdrawn_is_refused(hall: NativeHall, guest: NativeGuest) -> None:
    bob = hall.guest()
    hall.held = True
    assert guest.submits(b"new", watch=1) == []
    (job,) = hall.scheduler.jobs
    assert guest.says("watch", (job, 2), 7) == []
    assert bob.says("watch", (job, 1), 8) == []
    hall.turn_that_fails()
    hall.recover()
    assert [(kind, body[0]) for kind, _, body in guest.hears()] == [("error", "store_down")] * 2
    assert [(kind, number, body[0]) for kind, number, body in bob.hears()] == [("error", 8, "store_down")]
    assert not hall.scheduler.jobs


def submits_in_memory(guest: NativeGuest, *keys: bytes) -> list[tuple[str, int, Any]]:
    """Submit and watch jobs that are not durable, in one request."""
    terms = {"durable": False, "detached": True}
    return guest.says_numbered("submit", (1, [(b"q", b"", terms, key, 0, []) for key in keys]))


@pytest.mark.parametrize("leaves", [False, True])
def test_a_watch_of_a_job_whose_submit_is_refused_with_another_is_refused(
    hall: NativeHall, guest: NativeGuest, leaves: bool
) -> None:
    """The job is only in memory. Its submit also joins a job that the store fails, and made the peer a
    watcher.
    """
    bob = hall.guest()
    hall.held = True
    assert bob.submits(b"durable") == []
    assert submits_in_memory(guest, b"durable", b"other") == []
    other = max(hall.scheduler.jobs)
    if leaves:
        assert guest.says("unwatch", (other,)) == []
    assert guest.says("watch", (other, 1), 7) == []
    assert submits_in_memory(guest, b"durable", b"other") == []
    hall.turn_that_fails()
    hall.recover()
    assert [(kind, body[0]) for kind, _, body in guest.hears()] == [("error", "store_down")] * 3
    assert other not in {job.id for job in guest.session.watching}


def test_a_watch_outlives_a_later_submit_that_is_refused(hall: NativeHall, guest: NativeGuest) -> None:
    bob = hall.guest()
    ((_, _, (job,)),) = submits_in_memory(bob, b"other")
    hall.held = True
    assert guest.submits(b"durable") == []
    assert guest.says("watch", (job, 1), 7) == []
    assert submits_in_memory(guest, b"durable", b"other") == []
    hall.turn_that_fails()
    hall.recover()
    submit, watch, join = guest.hears()
    assert [submit[2][0], join[2][0]] == ["store_down"] * 2
    assert (watch[:2], watch[2]["id"]) == (("ok", 7), job)
    bob.says("cancel", (job, b"enough"))
    assert [(kind, body[:2]) for kind, _, body in guest.hears()] == [("ended", [job, "cancelled"])]


def test_a_watch_of_a_job_in_memory_outlives_a_submit_that_was_to_store_it(
    hall: NativeHall, guest: NativeGuest
) -> None:
    """The watch waits behind a pledge. Meanwhile somebody joins the job and wants it to be durable."""
    bob = hall.guest()
    ((_, _, (job,)),) = submits_in_memory(bob, b"other")
    hall.held = True
    assert guest.submits(b"durable") == []
    assert guest.says("watch", (job, 1), 7) == []
    assert hall.guest().submits(b"other") == []
    hall.turn_that_fails()
    hall.recover()
    submit, watch = guest.hears()
    assert submit[2][0] == "store_down"
    assert (watch[:2], watch[2]["id"]) == (("ok", 7), job)
    bob.says("cancel", (job, b"enough"))
    assert [(kind, body[:2]) for kind, _, body in guest.hears()] == [("ended", [job, "cancelled"])]


def test_progress_that_came_while_a_watch_waited_follows_its_refusal_and_no_more_comes(
    hall: NativeHall, guest: NativeGuest
) -> None:
    bob, eve = hall.guest(), hall.guest()
    bob.works()
    hall.held = True
    assert guest.submits(b"new") == []
    lease = assigned(bob.hears())
    (job,) = hall.scheduler.jobs
    assert eve.says("watch", (job, 2), 8) == []
    bob.says("progress", (lease, 1, 4, 0))
    hall.turn_that_fails()
    hall.recover()
    error, *rest = eve.hears()
    assert (error[:2], error[2][0], rest) == (("error", 8), "store_down", [("progress", 0, [job, 1, 4])])
    bob.says("progress", (lease, 2, 4, 0))
    assert eve.hears() == []


@pytest.mark.parametrize(
    ("kind", "body"), [("finish", (b"result",)), ("fail", (1, b"", False)), ("release", (True,))]
)
def test_a_report_about_a_job_that_is_withdrawn_is_refused(
    hall: NativeHall, guest: NativeGuest, kind: str, body: tuple[object, ...]
) -> None:
    """The worker asks whether its result is on disk. It was faster than the commit of the submit."""
    bob = hall.guest()
    bob.works()
    hall.held = True
    assert guest.submits(b"new") == []
    lease = assigned(bob.hears())
    assert bob.says(kind, (lease, *body), 8) == []
    hall.turn_that_fails()
    hall.recover()
    assert [(kind, body[0]) for kind, _, body in guest.hears()] == [("error", "store_down")]
    answers = [(kind, number, body[0]) for kind, number, body in bob.hears() if number]
    assert answers == [("error", 8, "store_down")]
    assert not hall.scheduler.jobs


def test_a_report_about_a_job_on_disk_waits_for_the_next_commit(hall: NativeHall, guest: NativeGuest) -> None:
    guest.submits(b"a")
    bob = hall.guest()
    lease = assigned(bob.works())
    hall.held = True
    assert bob.says("finish", (lease, b"result"), 8) == []
    hall.turn_that_fails()
    assert bob.hears() == []
    hall.recover()
    hall.settle()
    assert bob.hears() == [("ok", 8, None)]
