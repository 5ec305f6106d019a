"""A client that receives a result in one piece also gets what was sent ahead of it: PING/PONG and the draft."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.peer import Peer
from hiringhall.dialects.collecting import NOT_WHOLE, Collection
from hiringhall.dialects.gearman_draft import wire as draft
from stage.draft import DraftGuest, DraftHall
from stage.pingpong import PingPongHall

if TYPE_CHECKING:
    from hiringhall.core.leases import Lease
    from stage.hall import Hall

QUEUE = b"saw"


def lease_elsewhere(hall: Hall, queue: bytes) -> Lease:
    """A worker of another dialect takes a job."""
    hall.begin()
    worker = hall.scheduler.worker(Peer())
    hall.scheduler.can_do(worker, queue)
    lease = hall.scheduler.take(worker)
    hall.end()
    assert lease is not None
    return lease


def waits(hall: DraftHall, key: bytes = b"") -> DraftGuest:
    """An application that waits for a job."""
    application = hall.guest().say(draft.pack_job_create_req(QUEUE, key, 0, draft.SYNC_WAIT, b"oak"))
    assert application.hears() == [(draft.JOB_CREATE_RES, b"")]
    return application


def heard_end(application: DraftGuest) -> tuple[int, bytes]:
    """Code and data."""
    ((heard, body),) = application.hears()
    assert heard == draft.JOB_COMPLETE_RES
    parsed = draft.parse_job_complete_res(body)
    assert parsed is not None
    return parsed[1:]


def test_a_pingpong_client_gets_the_data_before_the_result() -> None:
    hall = PingPongHall()
    client = hall.client().say(b"oak")
    lease = lease_elsewhere(hall, hall.context.options.queue)
    hall.begin()
    hall.scheduler.chunk(lease, b"one ")
    hall.scheduler.chunk(lease, b"careful!", warning=True)
    hall.scheduler.chunk(lease, b"two ")
    assert client.hears() == []
    hall.begin()
    hall.scheduler.finish(lease, b"three")
    assert client.hears() == [b"one two three"]


def test_a_failure_reaches_a_pingpong_client_without_the_data() -> None:
    hall = PingPongHall()
    client = hall.client().say(b"oak")
    lease = lease_elsewhere(hall, hall.context.options.queue)
    hall.begin()
    hall.scheduler.chunk(lease, b"one ")
    hall.scheduler.fail(lease, 7, b"rotten")
    assert client.hears() == [b"ERROR 7 rotten"]


def test_a_pingpong_client_is_told_when_the_result_is_not_whole() -> None:
    hall = PingPongHall()
    hall.context.ahead = Collection(bytes_max=5)
    client = hall.client().say(b"oak")
    lease = lease_elsewhere(hall, hall.context.options.queue)
    hall.begin()
    hall.scheduler.chunk(lease, b"one ")
    hall.scheduler.chunk(lease, b"two ")
    hall.scheduler.chunk(lease, b"3")
    hall.scheduler.finish(lease, b"three")
    assert client.hears() == [b"ERROR too_large " + NOT_WHOLE.encode()]


def test_an_application_of_the_draft_gets_the_data_before_the_result() -> None:
    hall = DraftHall()
    application = waits(hall)
    lease = lease_elsewhere(hall, QUEUE)
    hall.begin()
    hall.scheduler.chunk(lease, b"one ")
    hall.scheduler.finish(lease, b"two")
    hall.end()
    assert heard_end(application) == (0, b"one two")


def test_an_application_of_the_draft_is_told_when_the_result_is_not_whole() -> None:
    hall = DraftHall()
    hall.context.ahead = Collection(bytes_max=3)
    application = waits(hall)
    lease = lease_elsewhere(hall, QUEUE)
    hall.begin()
    hall.scheduler.chunk(lease, b"one ")
    hall.scheduler.finish(lease, b"two")
    hall.end()
    assert heard_end(application) == (1, NOT_WHOLE.encode())


def test_only_the_data_of_the_attempt_that_succeeded_counts() -> None:
    hall = DraftHall()
    application = waits(hall)
    for ahead, last in ((b"lost ", False), (b"", True)):
        lease = lease_elsewhere(hall, QUEUE)
        hall.begin()
        if ahead:
            hall.scheduler.chunk(lease, ahead)
        if last:
            hall.scheduler.finish(lease, b"planks")
        else:
            hall.scheduler.lose(lease)
        hall.end()
    assert heard_end(application) == (0, b"planks")


def test_what_clients_that_left_had_collected_makes_room_for_others() -> None:
    hall = DraftHall()
    hall.context.ahead = Collection(bytes_max=5)
    gone = waits(hall, b"key")
    lease = lease_elsewhere(hall, QUEUE)
    hall.begin()
    hall.scheduler.chunk(lease, b"one ")
    hall.end()
    gone.leaves()
    application = waits(hall)
    other = lease_elsewhere(hall, QUEUE)
    hall.begin()
    hall.scheduler.chunk(other, b"two ")
    hall.scheduler.finish(other, b"three")
    hall.end()
    assert heard_end(application) == (0, b"two three")
