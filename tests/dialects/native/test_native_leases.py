"""Reports of a worker on its leases: a run limit that counts from now, and a job that its process lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stage.native import NativeGuest, NativeHall

SECOND = 1_000_000


def assigned(frames: list[tuple[str, int, Any]]) -> list[int]:
    """The leases of the assignments among these frames."""
    return [body[0] for kind, _, body in frames if kind == "assign"]


def test_a_renewed_lease_has_its_whole_run_limit_before_it(hall: NativeHall, guest: NativeGuest) -> None:
    guest.submits(b"a")
    bob = hall.guest()
    (lease,) = assigned(bob.works(run_us=10 * SECOND))
    hall.wait(9 * SECOND)
    assert bob.asks("renew", (lease,)) is None
    hall.wait(9 * SECOND)
    assert bob.hears() == []
    hall.wait(SECOND)
    assert bob.hears() == [("revoke", 0, [lease])]
    assert bob.asks("renew", (lease,)) == "stale_lease"


def test_a_lease_without_a_run_limit_can_be_renewed_too(hall: NativeHall, guest: NativeGuest) -> None:
    guest.submits(b"a")
    bob = hall.guest()
    (lease,) = assigned(bob.works())
    assert bob.asks("renew", (lease,)) is None
    hall.wait(3600 * SECOND)
    assert bob.asks("finish", (lease, b"")) is None


def test_a_lost_job_comes_back_until_it_is_a_dead_letter_that_names_the_reason(hall: NativeHall) -> None:
    ann, bob = hall.guest(), hall.guest()
    ((_, _, (job,)),) = ann.submits(b"a", watch=1)
    frames = bob.works()
    for _ in range(3):
        (lease,) = assigned(frames)
        frames = bob.says("lose", (lease, b"its process was ended by signal 6"))
    assert assigned(frames) == []
    text = b"its workers were lost 3 times; the last time: its process was ended by signal 6"
    assert ann.hears() == [("ended", 0, [job, "failed", 125, text])]
    described = ann.asks("job", (job,))
    assert (described["losses"], described["attempts"], described["result"]) == (3, 3, text)
    assert [code for _, _, _, code, _ in described["tries"]] == [125, 125]


def test_a_loss_is_answered_when_it_is_on_disk(hall: NativeHall) -> None:
    ann, bob = hall.guest(), hall.guest()
    ann.submits(b"a")
    (lease,) = assigned(bob.works())
    hall.held = True
    assert [kind for kind, number, _ in bob.says("lose", (lease, b""), 77) if number == 77] == []
    hall.held = False
    assert ("ok", 77, None) in bob.hears()
    assert hall.scheduler.counters.lost == 1


def test_a_lease_of_another_worker_is_not_lost_or_renewed(hall: NativeHall) -> None:
    ann, bob, eve = hall.guest(), hall.guest(), hall.guest()
    ann.submits(b"a")
    (lease,) = assigned(bob.works())
    eve.works()
    for kind, body in (("lose", (lease, b"")), ("renew", (lease,))):
        assert eve.asks(kind, body) == "stale_lease"
    for kind in ("lose", "renew"):
        assert bob.asks(kind, "five") == "bad_request"
    assert bob.asks("finish", (lease, b"")) is None


@pytest.mark.parametrize("broken", [False, True])
def test_an_assignment_that_waits_for_the_store_behind_an_answer_costs_the_job_nothing(
    hall: NativeHall, guest: NativeGuest, *, broken: bool
) -> None:
    """The store fails, or its commit only takes long."""
    (_, _, (first, second)), *_ = guest.submits(b"a", b"b")
    bob = hall.guest()
    (lease,) = assigned(bob.works(run_us=10 * SECOND))
    if broken:
        hall.break_store("disk full")
    else:
        hall.held = True
    assert bob.says("finish", (lease, b""), 77) == [], "the answer, and the job behind it, wait for the disk"
    assert hall.scheduler.jobs[second].lease is not None
    hall.wait(10 * SECOND)
    job = hall.scheduler.jobs[second]
    assert (job.failures, job.losses) == (0, 0)
    if broken:
        hall.recover()
    else:
        hall.held = False
    answer, (kind, _, (untold, *_)), revoked = bob.hears()
    assert (answer, kind, revoked) == (("ok", 77, None), "assign", ("revoke", 0, [untold]))
    (lease,) = assigned(bob.says("beat", None))
    assert bob.asks("finish", (lease, b"")) is None
    assert [guest.asks("job", (job_id,))["state"] for job_id in (first, second)] == ["done", "done"]
