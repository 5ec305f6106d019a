"""A hall with hire doors, and peers that use them without a socket."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from hire_script import HALL, UUIDS

from hiringhall.core.jobs import Job, JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.markets import Rules
from hiringhall.core.peer import Peer
from hiringhall.core.policies import soonest
from hiringhall.core.scheduler import Scheduler
from hiringhall.core.terms import Terms
from hiringhall.dialects.gearman import wire as gearman
from hiringhall.dialects.gearman.session import GearmanContext, GearmanOptions, GearmanSession, ProcessInfo
from hiringhall.dialects.hire.bus import BusSession
from hiringhall.dialects.hire.hire_bus import HireBus
from hiringhall.dialects.hire.session import HireContext, HireOptions, LineSession
from hiringhall.dialects.session import Caller, Session

START_US: Final = 1_767_225_600_000_000
"""Thursday, 1 January 2026, midnight UTC."""
SECOND_US: Final = 1_000_000
FIRST_JOB: Final = 1 << 36


class Guest:
    """Somebody on a connection: says lines, hears lines."""

    def __init__(self, room: Room, door: HireContext) -> None:
        self.room = room
        self.session = LineSession(Caller("127.0.0.1", 3), door)
        self.session.outbox = room.outbox

    def says(self, *lines: str | bytes) -> Guest:
        for line in lines:
            self.session.receive((line.encode() if isinstance(line, str) else line) + b"\n")
        return self

    def says_bytes(self, data: bytes) -> Guest:
        self.session.receive(data)
        return self

    def reads(self) -> bytes:
        self.room.end_turn()
        return self.room.taken(self.session)

    def hears(self) -> list[str]:
        text = self.reads().decode()
        assert not text or text.endswith("\n")
        return text.splitlines()

    def goes(self) -> None:
        self.room.hall.leave(self.session)
        self.session.disconnected()
        self.room.end_turn()


class Bus:
    """A bus, and what is heard on it."""

    def __init__(self, room: Room, door: HireContext) -> None:
        self.room = room
        self.session = BusSession(Caller("", -1), door)
        self.session.outbox = room.outbox
        self.session.listeners_changed(1)

    def says(self, *lines: str | bytes) -> Bus:
        for line in lines:
            self.session.receive(line.encode() if isinstance(line, str) else line)
        return self

    def hears(self) -> list[str]:
        self.room.end_turn()
        said = [message.decode() for message in self.session.out]
        self.room.taken(self.session)
        return said


class GearmanWorker:
    """A worker of another dialect, asleep until there is work."""

    def __init__(self, room: Room, function: bytes) -> None:
        process = ProcessInfo("1.2.3", 4711, "INFO", room.stops.append)
        self.room = room
        self.session = GearmanSession(
            Caller("127.0.0.1", 4), GearmanContext(room.hall, GearmanOptions(), process)
        )
        self.session.outbox = room.outbox
        self.handle = b""
        self._say(gearman.CAN_DO, function)
        self._say(gearman.PRE_SLEEP)

    def _say(self, packet_type: int, *args: bytes) -> None:
        self.session.receive(gearman.pack_request(packet_type, *args))

    def _hears(self) -> list[tuple[int, bytes]]:
        self.room.end_turn()
        return gearman.Reader(gearman.RESPONSE).feed(self.room.taken(self.session))

    def takes(self) -> None:
        """It is woken, and given the job."""
        assert [kind for kind, _ in self._hears()] == [gearman.NOOP]
        self._say(gearman.GRAB_JOB)
        ((kind, body),) = self._hears()
        assert kind == gearman.JOB_ASSIGN
        self.handle = body.split(b"\0")[0]

    def completes(self) -> None:
        self._say(gearman.WORK_COMPLETE, self.handle, b"flour")

    def fails(self) -> None:
        self._say(gearman.WORK_FAIL, self.handle)

    def goes(self) -> None:
        self.room.hall.leave(self.session)
        self.session.disconnected()
        self.room.end_turn()


class Client(Peer):
    """Somebody who waits for jobs, by no door at all."""


class Room:
    """The hall around them. Every turn ends with an audit."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.hall = Scheduler(limits or Limits(), 1, START_US)
        self.outbox: list[Session] = []
        self.stops: list[bool] = []
        self.client = Client()
        self.hire_bus: HireBus | None = None
        """Shared by all doors; it has the id of the first."""

    def door(self, options: HireOptions | None = None, rules: Rules | None = None) -> HireContext:
        options = options or HireOptions()
        if self.hire_bus is None:
            self.hire_bus = HireBus(self.hall, options.id)
        return HireContext(self.hire_bus, options, rules or Rules(soonest))

    def guest(self, door: HireContext) -> Guest:
        return Guest(self, door)

    def submits(self, queue: bytes, terms: Terms | None = None, due_us: int = 0) -> Job:
        return self.hall.submit(JobSpec(queue, b"", b"", terms or Terms(), due_us), self.client)

    def job(self, number: int) -> Job | None:
        return self.hall.find(FIRST_JOB + number)

    def taken(self, session: Session) -> bytes:
        """What a session has to say, said."""
        data = b"".join(session.out)
        session.out.clear()
        session.out_bytes = 0
        if session in self.outbox:
            self.outbox.remove(session)
        return data

    def end_turn(self) -> None:
        self.hall.settle()
        self.hall.audit()
        batch = self.hall.seal()
        if not batch.empty:
            self.hall.committed(batch)

    def wait(self, seconds: float) -> None:
        self.end_turn()
        until_us = self.hall.now_us + round(seconds * SECOND_US)
        while 0 < self.hall.next_deadline() <= until_us:
            self.hall.advance(max(self.hall.next_deadline(), self.hall.now_us))
            self.end_turn()
        self.hall.advance(until_us)
        self.end_turn()


def options_of(settings: dict[str, float], *, bus: bool, compact: bool) -> HireOptions:
    posting_us = round(settings.get("posting_s", 300) * SECOND_US)
    return HireOptions(id=UUID(HALL).bytes, bus=bus, compact=compact, posting_us=posting_us)


def rules_of(settings: dict[str, float]) -> Rules:
    """Those of the transcripts' settings, the others as a door has them."""

    def us(name: str, default_s: float) -> int:
        return round(settings.get(name, default_s) * SECOND_US)

    return Rules(
        soonest,
        window_us=us("window_s", 0.1),
        buffer_us=us("buffer_s", 5),
        answer_us=us("answer_s", 5),
        ahead_us=us("ahead_s", 0),
        perform_us=us("perform_s", 10),
    )


def line(speaker: str, verb: str, *fields: str) -> str:
    """A line in its long form, with names for UUIDs."""
    return f"{UUIDS[speaker]} {verb} {':'.join(UUIDS.get(field, field) for field in fields)}"
