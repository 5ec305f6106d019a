"""Events of the hall, as lines of the log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from hiringhall.core.jobs import JobSpec
from hiringhall.core.terms import Terms
from hiringhall.dialects.session import BAD_INPUT, REFUSED_SUBMIT, Caller, Session
from hiringhall.logs.events import EVENT_LINES_MAX, Events, peer_name
from hiringhall.logs.lines import EVENT_ATTRIBUTE, FIELDS_ATTRIBUTE
from hiringhall.logs.repeats import Repeats
from stage.hall import Hall

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job

DOOR = "gearman@127.0.0.1:4730"
DURABLE = Terms(durable=True, detached=True)


class Talker(Session):
    def job_handle(self, job: Job) -> bytes:
        return b"H:hall:%d" % job.id


class LoggedHall(Hall):
    """A hall whose events are written to the log, and one worker."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "hiringhall")
        self._caplog = caplog
        self.repeats = Repeats()
        self.events = Events(self.repeats)
        super().__init__(reporter=self.events)
        self.session = Talker(Caller("127.0.0.1", 3, (), 50_001, DOOR))
        self.engine.join(self.session)

    def run(self, payload: bytes, terms: Terms = DURABLE) -> Job:
        job = self.scheduler.submit(JobSpec(b"rev", payload, b"u" + payload, terms), None)
        worker = self.scheduler.worker(self.session)
        worker.name = b"ada"
        self.scheduler.can_do(worker, b"rev")
        self.scheduler.take(worker)
        return job

    def told(self) -> list[tuple[str, str, dict[str, Any]]]:
        """The event, the message and the values of each record."""
        return [
            (getattr(record, EVENT_ATTRIBUTE), record.getMessage(), getattr(record, FIELDS_ATTRIBUTE))
            for record in self._caplog.records
        ]


@pytest.fixture
def hall(caplog: pytest.LogCaptureFixture) -> LoggedHall:
    return LoggedHall(caplog)


def test_a_dead_letter_is_told_with_door_peer_queue_and_handle(hall: LoggedHall) -> None:
    job = hall.run(b"a")
    hall.scheduler.fail(
        next(iter(hall.scheduler.worker(hall.session).leases.values())), 1, b"no disk\nTraceback: ..."
    )
    assert hall.told() == [
        (
            "dead_letter",
            "dead letter: failed for good with code 1 after 1 attempt: no disk",
            {
                "door": DOOR,
                "peer": "127.0.0.1:50001",
                "queue": b"rev",
                "handle": b"H:hall:%d" % job.id,
                "key": b"ua",
                "worker": b"ada",
            },
        )
    ]


def test_a_lost_worker_is_told_with_the_job_it_held(hall: LoggedHall) -> None:
    hall.run(b"a")
    hall.scheduler.leave(hall.session)
    ((event, text, fields),) = hall.told()
    assert (event, text) == (
        "lost_worker",
        "lost worker: it disconnected or was silent while it held a job; the job has lost 1 worker so far",
    )
    assert (fields["peer"], fields["queue"], fields["worker"]) == ("127.0.0.1:50001", b"rev", b"ada")


def test_a_worker_that_reports_a_loss_is_told_with_its_reason(hall: LoggedHall) -> None:
    hall.run(b"a")
    assert hall.session.worker is not None
    (lease,) = hall.session.worker.leases.values()
    hall.scheduler.lose(lease, b"its process was ended by signal 6\nTraceback")
    ((event, text, _),) = hall.told()
    assert (event, text) == (
        "lost_worker",
        "lost worker: its process was ended by signal 6; the job has lost 1 worker so far",
    )


def test_workers_whose_connections_the_hall_closes_are_not_told_as_lost(hall: LoggedHall) -> None:
    hall.run(b"a")
    hall.events.mute()
    hall.scheduler.leave(hall.session)
    assert hall.told() == []


def test_many_events_of_a_kind_at_one_door_are_counted_whoever_caused_them(hall: LoggedHall) -> None:
    for number in range(100):
        caller = Caller("127.0.0.1", 3, (), 40_000 + number, DOOR)
        hall.events.report(BAD_INPUT, f"nonsense {number}", caller)
    assert len(hall.told()) == EVENT_LINES_MAX
    ((topic, unwritten, _),) = hall.repeats.summaries(all_of_them=True)
    assert (topic.text, topic.door, unwritten) == ("bad input", DOOR, 100 - EVENT_LINES_MAX)


def test_events_at_other_doors_and_of_other_kinds_have_lines_of_their_own(hall: LoggedHall) -> None:
    for number in range(100):
        hall.events.report(BAD_INPUT, f"nonsense {number}", Caller("", 3, (), 0, DOOR))
    hall.events.report(BAD_INPUT, "elsewhere", Caller("", 3, (), 0, "hire@127.0.0.1:1"))
    hall.session.report(REFUSED_SUBMIT, "full", b"rev", b"u7")
    assert [text for _, text, _ in hall.told()[EVENT_LINES_MAX:]] == [
        "bad input: elsewhere",
        "refused submit: full",
    ]
    assert hall.told()[-1][2] == {"door": DOOR, "peer": "127.0.0.1:50001", "queue": b"rev", "key": b"u7"}


def test_events_below_the_level_are_not_even_counted(
    hall: LoggedHall, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "hiringhall")
    for _ in range(100):
        hall.session.report(BAD_INPUT, "nonsense")
    assert hall.told() == []
    assert hall.repeats.summaries(all_of_them=True) == []


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        (Caller("10.0.0.7", 3, (), 5555), "10.0.0.7:5555"),
        (Caller("::1", 3, (), 5555), "[::1]:5555"),
        (Caller("10.0.0.7", -1, (b"worker-1", b"")), "10.0.0.7/worker-1"),
        (Caller("10.0.0.7", -1, (b"\x00k\x8b\x45\x67",)), "10.0.0.7/006b8b4567"),
        (Caller("", -1), ""),
    ],
)
def test_how_a_peer_is_named(caller: Caller, expected: str) -> None:
    assert peer_name(caller) == expected


def test_a_pause_of_the_hall_is_told_with_its_length(hall: LoggedHall) -> None:
    hall.events.paused(61_234_000)
    ((event, message, fields),) = hall.told()
    assert (event, fields) == ("pause", {"seconds": "61.234"})
    assert message == "pause: the hall or its machine was stopped for 61.2 s; all deadlines move by that time"
