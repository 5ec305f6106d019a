"""Runs made by hand, for cases that seeds rarely show: what a law must accept, and what it must accuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hiringhall.core.bidding.markets import Rules
from hiringhall.core.bidding.policies import POLICIES
from hiringhall.core.limits import Limits
from hiringhall.core.states import DONE
from hiringhall.dialects.gearman.session import GearmanOptions
from hiringhall.dialects.gearman_draft import wire as draft
from hiringhall.dialects.hire import wire as hire
from hiringhall.dialects.native import wire as native
from hiringhall.dialects.pingpong import wire as pingpong
from hiringhall.dialects.pingpong.context import PingPongOptions

from .disk import Disk
from .gearmantap import HANDLE_PREFIX
from .hall import Hall
from .hirebus import Bus
from .hiredoors import HireDoors
from .laws import Laws
from .nativeactors import HELLO
from .network import Weather
from .owndialect import OwnSession, line
from .post import Line, Post
from .world import MS, SECOND, Violation, World
from .zmqdoors import ZmqDoors

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job

    from .network import Connection

QUEUE = b"q"
WINDOW_US = 20 * MS
UUID = bytes(range(16))
CALL = {"do": "submit", "queue": "q", "payload": "t1", "watched": True}


class Peer:
    """Somebody who does only what the test says. Its bytes reach the hall at once."""

    def __init__(self, table: Table, dialect: str) -> None:
        self.dialect = self.tap = dialect
        self.name = dialect
        self.heard_bytes = b""
        self._hall = table.hall
        connection = table.hall.connect(self)  # type: ignore[arg-type]
        assert connection is not None
        self.connection = connection

    def heard(self, connection: Connection, data: bytes) -> None:
        del connection
        self.heard_bytes += data

    def disconnected(self, connection: Connection) -> None:
        """The hall has closed the connection."""

    def send(self, data: bytes) -> None:
        self._hall.arrived(self.connection, data)

    def ask(self, **request: Any) -> None:
        """In the own dialect."""
        self.send(line(**request))

    def lines(self, verb: bytes) -> list[hire.Line]:
        """What it has heard as one who is hired."""
        lines = [hire.read_line(text) for text in self.heard_bytes.splitlines()]
        return [line for line in lines if line.verb == verb]

    def say(self, verb: bytes, job: bytes, **fields: Any) -> None:
        """As one who is hired."""
        self.send(hire.write_line(hire.Line(UUID, verb, job, **fields)) + b"\n")

    def part(self) -> None:
        self.connection.there = False
        self._hall.disconnected(self.connection)


class Table:
    """A hall without actors and faults. A turn lasts until the world runs on; clients are told after it."""

    def __init__(self) -> None:
        self.world = World(1)
        options = GearmanOptions(handle_prefix=HANDLE_PREFIX.removesuffix(b":"))
        self.laws = Laws(self.world, options)
        weather = Weather(self.world)
        weather.calm()
        disk = Disk(self.world, self.laws)
        disk.calm()
        self.hall = Hall(self.world, weather, disk, self.laws, Limits(), options)
        self.hall.turn_us_max = 1
        self.world.chance = lambda probability: probability > 0  # type: ignore[method-assign]
        doors = HireDoors(self.world, Bus(self.world, weather, self.hall))
        doors.kinds = ("lines",)
        policy = next(iter(POLICIES.values()))
        doors.rules = Rules(policy, window_us=WINDOW_US)
        self.hall.hire_bus = doors
        self.post = Post(self.world, weather)
        self.post.calm()
        self.post.hall = self.hall
        self.hall.doors = ZmqDoors(self.world, self.post, [QUEUE])
        self.hall.doors.pingpong = PingPongOptions(queue=QUEUE)
        self.hall.open()
        self.run()

    def run(self, time_us: int = 10 * MS) -> None:
        self.world.run(self.world.now_us + time_us)

    @property
    def job(self) -> Job:
        (job,) = self.hall.scheduler.jobs.values()
        return job

    def calls(self, **terms: Any) -> Peer:
        """A client of the own dialect that waits for a job."""
        client = Peer(self, "own")
        client.ask(**CALL, **terms)
        return client

    def bids(self) -> tuple[Peer, bytes]:
        """A worker that has bid for the one ready job, and its name. It is hired as this turn begins."""
        worker, job = self.bids_in_time()
        self.world.now_us += 2 * WINDOW_US
        self.hall.turn()
        assert any(worker.promise is not None for worker in self.hall.scheduler.workers)
        return worker, job

    def bids_in_time(self) -> tuple[Peer, bytes]:
        """A worker that has bid for the one ready job, whose window is still open."""
        worker = Peer(self, "hire")
        self.run()
        job = worker.lines(hire.ANNOUNCE)[0].job
        worker.say(hire.AVAIL, job)
        self.run(MS)
        return worker, job


@pytest.fixture
def table() -> Table:
    return Table()


# --- results that are told between two turns


def _own_worker_does(table: Table) -> None:
    worker = Peer(table, "own")
    worker.ask(do="can_do", queue="q")
    worker.ask(do="take")
    table.run()
    worker.ask(do="finish", id=table.job.id, result="made")
    table.run()


def test_a_result_that_is_told_between_two_turns_is_its_holders(table: Table) -> None:
    client = table.calls()
    _own_worker_does(table)
    assert b"made" in client.heard_bytes


def test_a_result_that_is_told_between_two_turns_and_is_nobodys_breaks_a_law(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(self: OwnSession, job: Job) -> None:
        self.send(line(notice="ended", id=job.id, state=DONE, code=0, result="another"))

    monkeypatch.setattr(OwnSession, "ended", ended)
    table.calls()
    with pytest.raises(Violation, match="has a result that no holder sent"):
        _own_worker_does(table)


# --- results of PING/PONG workers, which name no job


def _pingpong_socket(table: Table) -> Line:
    """One of a worker that uses the same identity for all of them."""
    return Line(table.post, "backend", lambda _: None, b"worker", lossy=False)


def _is_sent_a_job(table: Table, socket: Line) -> None:
    socket.send(b"", pingpong.READY)
    table.run()
    assert table.job.lease is not None


def _session_has_ended(table: Table) -> None:
    table.run(SECOND)
    assert not table.hall.routers["backend"].links
    assert table.job.lease is None


def test_a_socket_that_the_worker_had_before_may_be_late_with_the_result_of_another_job(table: Table) -> None:
    client = table.calls()
    before, present = _pingpong_socket(table), _pingpong_socket(table)
    _is_sent_a_job(table, present)
    present.close()
    _session_has_ended(table)
    before.send(b"", b"r1 for t0")
    table.run()
    assert b"r1 for t0" in client.heard_bytes


def test_the_result_of_another_job_by_the_socket_that_was_sent_this_one_breaks_a_law(table: Table) -> None:
    table.calls()
    socket = _pingpong_socket(table)
    _is_sent_a_job(table, socket)
    table.post.weather.half_open_us = 1
    socket.flap()
    _session_has_ended(table)
    socket.send(b"", b"r1 for t0")
    with pytest.raises(Violation, match="a result that was made for b't0'"):
        table.run()


# --- workers that leave before they are told what they have


def _draft_worker(table: Table) -> Peer:
    worker = Peer(table, "draft")
    worker.send(draft.pack_worker_connect([QUEUE]))
    table.run()
    return worker


def test_a_draft_worker_that_leaves_in_the_turn_in_which_it_is_given_a_job_may_have_done_it(
    table: Table,
) -> None:
    worker = _draft_worker(table)
    client = table.calls()
    worker.send(draft.JOB_ASSIGN_REQ_PACKET)
    worker.send(draft.pack_job_complete_announce(0, b"made"))
    worker.part()
    table.run()
    assert b"made" in client.heard_bytes


def test_a_draft_worker_that_asked_for_no_job_and_leaves_has_done_nothing(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = _draft_worker(table)
    table.calls()
    worker.send(draft.pack_job_complete_announce(0, b"forged"))
    worker.part()

    def ended(self: OwnSession, job: Job) -> None:
        self.send(line(notice="ended", id=job.id, state=DONE, code=0, result="forged"))

    monkeypatch.setattr(OwnSession, "ended", ended)
    table.hall.scheduler.cancel(table.job, b"by nobody")
    with pytest.raises(Violation, match="has a result that no holder sent"):
        table.run()


# --- workers that are not needed any more in the turn in which they are hired


def test_a_worker_may_quit_in_the_turn_of_its_hire_what_nobody_waits_for(table: Table) -> None:
    client = table.calls(durable=True)
    worker, job = table.bids()
    client.part()
    worker.say(hire.QUIT, job)
    assert not table.hall.scheduler.jobs
    table.run(SECOND)
    assert len(worker.lines(hire.HIRE)) == 1


def test_a_worker_may_quit_in_the_turn_of_its_hire_a_job_with_a_key_that_nobody_waits_for(table: Table) -> None:
    client = table.calls(key="k")
    worker, job = table.bids()
    client.part()
    worker.say(hire.QUIT, job)
    assert not table.hall.scheduler.jobs
    table.run(SECOND)
    assert len(worker.lines(hire.HIRE)) == 1


def test_a_worker_may_quit_in_the_turn_of_its_hire_what_somebody_cancels_then(table: Table) -> None:
    client = table.calls(durable=True)
    worker, job = table.bids()
    worker.say(hire.QUIT, job)
    client.ask(do="cancel", id=table.job.id)
    assert not table.hall.scheduler.jobs
    table.run(SECOND)
    assert len(worker.lines(hire.HIRE)) == 1


def test_a_hire_for_a_job_that_is_gone_breaks_a_law(table: Table) -> None:
    client = table.calls(durable=True)
    table.bids()
    client.part()
    table.hall.scheduler.cancel(table.job, b"by nobody")
    with pytest.raises(Violation, match="which nobody submitted"):
        table.run()


def test_a_hire_for_a_job_that_a_worker_quit_and_somebody_waits_for_breaks_a_law(table: Table) -> None:
    table.calls(durable=True)
    worker, job = table.bids()
    worker.say(hire.QUIT, job)
    table.hall.scheduler.cancel(table.job, b"by nobody")
    with pytest.raises(Violation, match="which nobody submitted"):
        table.run()


def test_a_dismissal_in_the_turn_of_the_hire_for_no_reason_breaks_a_law(table: Table) -> None:
    table.calls(durable=True)
    table.bids()
    table.hall.scheduler.hiring.dismiss_promised()
    with pytest.raises(Violation, match="before its time"):
        table.run()


def _drains(table: Table, overseer: Peer) -> None:
    (worker,) = [worker for worker in table.hall.scheduler.workers if worker.promise is not None]
    overseer.send(native.encode(native.DRAIN, 2, [worker.number]))


def _overseer(table: Table) -> Peer:
    overseer = Peer(table, "native")
    overseer.send(HELLO)
    table.run()
    return overseer


def test_a_worker_may_be_drained_in_the_turn_of_its_hire(table: Table) -> None:
    overseer = _overseer(table)
    table.calls(durable=True)
    worker, _ = table.bids()
    _drains(table, overseer)
    table.run()
    assert len(worker.lines(hire.HIRE)) == len(worker.lines(hire.DISMISS)) == 1


def test_a_worker_may_be_drained_in_the_turn_of_its_hire_for_what_nobody_waits_for(table: Table) -> None:
    overseer = _overseer(table)
    client = table.calls(durable=True)
    worker, _ = table.bids()
    client.part()
    _drains(table, overseer)
    table.run()
    assert len(worker.lines(hire.HIRE)) == len(worker.lines(hire.DISMISS)) == 1


# --- a job that came back goes before others, unless they came back later


def _own_worker_takes(table: Table) -> Peer:
    worker = Peer(table, "own")
    worker.ask(do="can_do", queue="q")
    worker.ask(do="take")
    table.run()
    return worker


def test_a_job_may_come_back_behind_another_from_a_worker_that_leaves_in_the_turn_of_its_hire(
    table: Table,
) -> None:
    client = table.calls()
    taker = _own_worker_takes(table)
    client.ask(**{**CALL, "payload": "t2"})
    hired, _ = table.bids()
    taker.part()
    hired.part()
    table.run()
    assert not hired.lines(hire.HIRE)
    assert b"t2" in _own_worker_takes(table).heard_bytes


def test_a_job_that_goes_before_one_that_came_back_breaks_a_law_if_a_worker_only_bid(table: Table) -> None:
    client = table.calls()
    taker = _own_worker_takes(table)
    first = table.job
    client.ask(**{**CALL, "payload": "t2"})
    bidder, _ = table.bids_in_time()
    taker.part()
    bidder.part()
    table.run()
    lane = first.queue.lanes[first.terms.priority]
    lane.forget(first)
    lane.ready -= 1
    lane.push(first)
    with pytest.raises(Violation, match="which had come back"):
        _own_worker_takes(table)
