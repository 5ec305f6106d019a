"""What is on disk before it is told, and what happens when somebody leaves, waits or sends too much."""

from __future__ import annotations

import pytest

from hiringhall.core.jobs import JobSpec
from hiringhall.core.states import CANCELLED, DONE
from hiringhall.core.terms import Terms
from hiringhall.dialects.beanstalkd.context import BeanstalkdOptions
from hiringhall.storage.contract import HistoryQuery
from stage.beanstalkd import BeanstalkdGuest, BeanstalkdHall
from stage.hall import SECOND_US


def test_a_put_is_acknowledged_after_its_commit(hall: BeanstalkdHall, guest: BeanstalkdGuest) -> None:
    hall.held = True
    assert guest.says("put 0 0 60 1", "x") == ""
    hall.begin()
    hall.commit()
    assert guest.hears().startswith("INSERTED ")


def test_in_memory_nothing_waits_for_the_disk() -> None:
    hall = BeanstalkdHall(BeanstalkdOptions(durable=False))
    hall.held = True
    guest = hall.guest()
    job_id = guest.puts()
    assert guest.reserves() == job_id
    assert guest.says(f"delete {job_id}") == "DELETED"


@pytest.mark.parametrize("words", ["delete {}", "release {} 0 9", "bury {} 0"])
def test_what_becomes_of_a_job_is_on_disk_before_it_is_told(
    hall: BeanstalkdHall, guest: BeanstalkdGuest, words: str
) -> None:
    job_id = guest.puts()
    guest.reserves()
    hall.held = True
    assert guest.says(words.format(job_id)) == ""
    hall.begin()
    hall.commit()
    assert guest.hears() in ("DELETED", "RELEASED", "BURIED")


def test_a_put_that_cannot_be_stored_is_refused(hall: BeanstalkdHall, guest: BeanstalkdGuest) -> None:
    hall.held = True
    guest.says("put 0 0 60 1", "x")
    hall.begin()
    hall.fail("disk full")
    assert guest.hears() == "OUT_OF_MEMORY"
    assert guest.says("put 0 0 60 1", "x") == "OUT_OF_MEMORY"
    assert not hall.scheduler.jobs


def test_jobs_and_buried_jobs_survive_a_crash(hall: BeanstalkdHall, guest: BeanstalkdGuest) -> None:
    ready, buried, delayed = guest.puts("r", 0), guest.puts("b", 2000), guest.puts("d", delay_s=90)
    guest.says(f"reserve-job {buried}", f"bury {buried} 0")
    hall.open()
    guest = hall.guest()
    assert guest.says("peek-ready") == f"FOUND {ready} 1\nr"
    assert guest.says("peek-buried") == f"FOUND {buried} 1\nb"
    assert guest.says("peek-delayed") == f"FOUND {delayed} 1\nd"
    assert guest.says("kick 1") == "KICKED 1"
    assert guest.stats("stats-job", buried)["pri"] == "0"
    assert [guest.reserves(), guest.reserves()] == [ready, buried]


def test_a_job_that_is_buried_in_memory_is_stored_with_that() -> None:
    hall = BeanstalkdHall(BeanstalkdOptions(durable=False))
    guest = hall.guest()
    job_id = guest.puts("b")
    guest.reserves()
    assert guest.says(f"bury {job_id} 0") == "BURIED"
    hall.open()
    assert hall.guest().says("kick 1") == "KICKED 1"
    guest = hall.guest()
    job_id = guest.puts("c", 5000)
    guest.says(f"reserve-job {job_id}")
    hall.held = True
    assert guest.says(f"bury {job_id} 0") == ""
    hall.begin()
    hall.fail("disk full")
    assert guest.hears() == "OUT_OF_MEMORY"


def test_the_history_tells_a_delete_by_the_worker_from_one_by_somebody_else(
    hall: BeanstalkdHall, guest: BeanstalkdGuest
) -> None:
    done, cancelled = guest.puts(), guest.puts()
    guest.reserves()
    assert guest.says(f"delete {done}", f"delete {cancelled}") == "DELETED\nDELETED"
    ends = {line.id: (line.state, line.result, line.worker) for line in hall.store.history(HistoryQuery())}
    assert ends == {done: (DONE, b"", b"127.0.0.1:40001"), cancelled: (CANCELLED, b"deleted", b"")}


def test_what_a_worker_had_when_it_left_is_next(hall: BeanstalkdHall, guest: BeanstalkdGuest) -> None:
    first, _ = guest.puts(), guest.puts()
    worker = hall.guest()
    for _ in range(10):
        assert worker.reserves() == first
        worker.leaves()
        worker = hall.guest()
    assert worker.reserves() == first
    assert not hall.context.sessions.keys() - {guest.session, worker.session}


def test_a_worker_that_leaves_while_it_waits_is_given_nothing(
    hall: BeanstalkdHall, guest: BeanstalkdGuest
) -> None:
    gone, half = hall.guest(), hall.guest()
    assert gone.says("reserve-with-timeout 5") == ""
    assert half.says("reserve-with-timeout 5") == ""
    gone.leaves()
    half.says_no_more()
    assert half.closed
    job_id = guest.puts()
    hall.wait(10 * SECOND_US)
    assert (gone.hears(), half.hears()) == ("", "")
    assert guest.reserves() == job_id


def test_a_job_that_waits_for_its_worker_is_warned_of_only_while_it_is_there(
    hall: BeanstalkdHall, guest: BeanstalkdGuest
) -> None:
    job_id = guest.puts(run_s=5)
    worker = hall.guest()
    worker.reserves()
    assert worker.says("reserve-with-timeout 20") == ""
    hall.begin()
    hall.scheduler.cancel(hall.scheduler.jobs[job_id])
    hall.wait(19 * SECOND_US)
    assert worker.hears() == ""
    hall.wait(SECOND_US)
    assert worker.hears() == "TIMED_OUT"


def test_a_pause_of_the_hall_counts_for_nobody(hall: BeanstalkdHall, guest: BeanstalkdGuest) -> None:
    job_id = guest.puts(run_s=30)
    guest.reserves()
    waiting = hall.guest()
    waiting.says("reserve-with-timeout 20")
    hall.pause(3600 * SECOND_US)
    hall.wait(15 * SECOND_US)
    assert waiting.hears() == ""
    assert guest.says(f"touch {job_id}") == "TOUCHED"
    hall.wait(10 * SECOND_US)
    assert waiting.hears() == "TIMED_OUT"


def test_a_peer_that_sends_on_and_on_behind_a_reserve_is_disconnected(
    hall: BeanstalkdHall, guest: BeanstalkdGuest
) -> None:
    guest.says("reserve")
    guest.say_bytes(b"list-tube-used\r\n" * 60_000)
    hall.end()
    assert not guest.closed
    guest.say_bytes(b"list-tube-used\r\n" * 6_000)
    hall.end()
    assert guest.closed


def test_a_hall_that_closes_hands_nothing_out(hall: BeanstalkdHall, guest: BeanstalkdGuest) -> None:
    job_id = guest.puts()
    hall.begin()
    hall.scheduler.close()
    assert guest.says("reserve-with-timeout 0") == "TIMED_OUT"
    assert guest.says(f"reserve-job {job_id}") == "DRAINING"
    assert guest.says("put 0 0 60 1", "x").startswith("INSERTED ")
    assert guest.stats("stats")["draining"] == "true"
    memory = BeanstalkdHall(BeanstalkdOptions(durable=False))
    memory.begin()
    memory.scheduler.close()
    assert memory.guest().says("put 0 0 60 1", "x") == "DRAINING"


def test_quit_closes_the_connection_after_what_was_asked(guest: BeanstalkdGuest) -> None:
    assert guest.says("use mail", "quit", "use other") == "USING mail"
    assert guest.closed


def test_burying_a_job_that_has_retries_left_is_one_failure(
    hall: BeanstalkdHall, guest: BeanstalkdGuest
) -> None:
    hall.begin()
    terms = Terms(durable=True, detached=True, failures_max=1, backoff_us=2 * SECOND_US)
    job = hall.scheduler.submit(JobSpec(b"default", b"x", b"", terms), None)
    assert guest.reserves() == job.id
    assert guest.says(f"bury {job.id} 1024") == "BURIED"
    assert guest.stats("stats-job", job.id)["state"] == "delayed"
    hall.wait(2 * SECOND_US)
    assert guest.reserves() == job.id
    assert guest.says(f"bury {job.id} 1024", "peek-buried") == f"BURIED\nFOUND {job.id} 1\nx"


def test_nothing_is_reserved_from_a_tube_that_is_paused_elsewhere(hall: BeanstalkdHall) -> None:
    guest = hall.guest()
    ready, delayed = guest.puts(), guest.puts(delay_s=60)
    buried = guest.puts(priority=0)
    assert guest.reserves() == buried
    guest.says(f"bury {buried} 0")
    hall.scheduler.pause_queue(b"default")
    assert guest.says("reserve-with-timeout 0") == "TIMED_OUT"
    for job in (ready, delayed, buried):
        assert guest.says(f"reserve-job {job}") == "NOT_FOUND"
    assert guest.stats("stats-job", buried)["state"] == "buried"
    hall.scheduler.resume_queue(b"default")
    for job in (ready, delayed, buried):
        assert guest.says(f"reserve-job {job}").startswith(f"RESERVED {job} ")
