"""A hall with one WMP door: paths that talk to it without a socket, and clients who wait for their jobs."""

from __future__ import annotations

from hiringhall.core.jobs import Job, JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.peer import Peer
from hiringhall.core.scheduler import Scheduler
from hiringhall.core.terms import Terms
from hiringhall.dialects.session import Caller, Session
from hiringhall.dialects.wmp import wire
from hiringhall.dialects.wmp.session import WmpContext, WmpOptions, WmpSession

START_US = 1_767_225_600_000_000
"""Thursday, 1 January 2026, midnight UTC."""
SECOND_US = 1_000_000
SECRET = b"a secret of thirty-two bytes now"


class Client(Peer):
    """Somebody who waits for jobs, by no door at all."""

    def __init__(self, room: Room) -> None:
        super().__init__()
        self.room = room
        self.heard: list[tuple[str, bytes]] = []

    def submits(self, queue: bytes, payload: bytes = b"", key: bytes = b"", terms: Terms | None = None) -> Job:
        return self.room.hall.submit(JobSpec(queue, payload, key, terms or Terms()), self)

    def progressed(self, job: Job) -> None:
        self.heard.append(("progress", b"%d/%d" % (job.numerator, job.denominator)))

    def chunked(self, job: Job, data: bytes, warning: bool) -> None:
        self.heard.append(("chunk", data))

    def ended(self, job: Job) -> None:
        self.heard.append((f"ended {job.code}", job.result))

    def hears(self) -> list[tuple[str, bytes]]:
        self.room.end_turn()
        heard, self.heard = self.heard, []
        return heard


class Path:
    """A worker at the end of one path: says messages, hears messages."""

    def __init__(self, room: Room, name: bytes, door: WmpContext) -> None:
        self.room = room
        self.session = WmpSession(Caller("127.0.0.1", -1, (name, b"", b"")), door)
        self.session.outbox = room.outbox

    def says(self, command: bytes, *headers: tuple[bytes, bytes], payload: bytes = b"") -> Path:
        return self.says_bytes(wire.encode_body(command, list(headers), payload))

    def says_bytes(self, body: bytes) -> Path:
        self.session.receive(body)
        return self

    def hears(self) -> list[wire.Message]:
        """Everything said to it since the last time, after the end of a turn."""
        self.room.end_turn()
        messages = [wire.parse_body(body) for body in self.session.out]
        self.session.out.clear()
        if self.session in self.room.outbox:
            self.room.outbox.remove(self.session)
        return messages

    def hears_one(self, command: bytes) -> wire.Message:
        (message,) = self.hears()
        assert message.command == command
        assert message.first(b"manager") == self.room.door.options.manager
        return message

    def hears_nothing(self) -> None:
        assert [message.command for message in self.hears()] == []

    def is_ready(self, *roles: bytes) -> Path:
        return self.says(wire.READY, *[(b"role", role) for role in roles])

    def is_woken(self, role: bytes) -> Path:
        assert self.hears_one(wire.WAKE).first(b"role") == role
        return self

    def takes(self, role: bytes) -> bytes:
        """GIVE and TAKE; what the job is called."""
        return self.says(wire.GIVE, (b"role", role)).hears_one(wire.TAKE).first(b"job")

    def is_denied(self, role: bytes) -> None:
        assert self.says(wire.GIVE, (b"role", role)).hears_one(wire.NO).first(b"role") == role

    def reports(self, job: bytes, *headers: tuple[bytes, bytes], payload: bytes = b"") -> Path:
        return self.says(wire.DONE, (b"manager", b"hall"), (b"job", job), *headers, payload=payload)

    def shows(self, job: bytes, *headers: tuple[bytes, bytes], payload: bytes = b"") -> Path:
        return self.says(wire.STATUS, (b"manager", b"hall"), (b"job", job), *headers, payload=payload)

    def is_cut(self) -> None:
        """A message to it could not be sent: the transport parts it."""
        self.room.hall.leave(self.session)
        self.session.disconnected()
        self.room.end_turn()


class Room:
    """The hall around them. Every turn ends with an audit."""

    def __init__(self, options: WmpOptions | None = None, limits: Limits | None = None, epoch: int = 1) -> None:
        self.hall = Scheduler(limits or Limits(), epoch, START_US)
        self.door = WmpContext(self.hall, options or WmpOptions(), SECRET)
        self.outbox: list[Session] = []
        self._names = 0

    def path(self, door: WmpContext | None = None) -> Path:
        self._names += 1
        return Path(self, b"p%d" % self._names, door or self.door)

    def client(self) -> Client:
        return Client(self)

    def end_turn(self) -> None:
        self.hall.settle()
        self.hall.audit()
        batch = self.hall.seal()
        if not batch.empty:
            self.hall.committed(batch)

    def wait(self, duration_us: int) -> None:
        self.end_turn()
        self.hall.advance(self.hall.now_us + duration_us)
        self.end_turn()

    @property
    def stale(self) -> int:
        return self.hall.counters.stale
