"""A hall with one draft door, and guests who talk to it without a socket.

The engine is the real one. Its store is in memory and has answered when a guest's words are taken in, unless
the story holds it up.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from hiringhall.core.limits import Limits
from hiringhall.dialects.gearman_draft import wire
from hiringhall.dialects.gearman_draft.session import DraftContext, DraftOptions, DraftSession
from hiringhall.dialects.session import Caller, Link, Session
from hiringhall.engine.recovery import open_scheduler
from hiringhall.engine.turn import Engine
from hiringhall.storage.contract import HistoryQuery
from hiringhall.storage.memory import MemoryStore

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch
    from hiringhall.core.jobs import ParentRef
    from hiringhall.storage.contract import Retention

START_US = 1_767_225_600_000_000
"""Thursday, 1 January 2026, midnight UTC."""
SECOND_US = 1_000_000
STEP_US = 1_000

Packet = tuple[int, bytes]


class Guest(Link):
    """Somebody at the door: says packets, hears packets."""

    def __init__(self, room: Room, descriptor: int) -> None:
        super().__init__()
        self.room = room
        self.session = DraftSession(Caller("127.0.0.1", descriptor), room.door)
        self.session.link = self
        self.closed = False
        self.paused = False
        self._heard = b""
        room.engine.join(self.session)

    # --- the engine's side

    def write(self, messages: list[bytes]) -> None:
        assert not self.closed, "nothing is written after the close"
        self._heard += b"".join(messages)

    def close(self) -> None:
        self.closed = True

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    # --- the guest's side

    def say(self, data: bytes) -> Guest:
        if not self.session.closing:
            self.room.begin()
            self.session.receive(data)
            self.room.end()
        return self

    def reads(self) -> bytes:
        """Everything said to the guest since the last time."""
        heard = self._heard
        self._heard = b""
        return heard

    def hears(self) -> list[Packet]:
        reader = wire.Reader()
        packets = reader.feed(self.reads())
        assert reader.error is None
        assert reader.idle
        return packets

    def is_refused(self, code: int) -> str:
        """What the one error says."""
        ((heard, body),) = self.hears()
        assert heard == wire.JOB_COMPLETE_RES
        assert body[:5] == b"\xff\xff\xff\xff" + bytes([code]), body
        assert body[5:]
        return body[5:].decode()

    def creates(self, name: bytes, key: bytes = b"", args: bytes = b"", flags: int = 0) -> bytes:
        """LeaseHolder in an async job, and its handle."""
        self.say(wire.pack_job_create_req(name, key, flags, wire.ASYNC_HANDLE, args))
        ((heard, handle),) = self.hears()
        assert heard == wire.JOB_CREATE_RES, handle
        return handle

    def takes(self) -> tuple[bytes, bytes] | None:
        """Ask for a job: its name and args."""
        self.say(wire.JOB_ASSIGN_REQ_PACKET)
        ((heard, body),) = self.hears()
        assert heard == wire.JOB_ASSIGN_RES, body
        return wire.parse_job_assign_res(body) if body else None

    def completes(self, code: int = 0, data: bytes = b"") -> None:
        self.say(wire.pack_job_complete_announce(code, data))
        assert self.reads() == b""

    def asks_end(self, handle: bytes) -> tuple[int, int, bytes]:
        """Status, code and data."""
        self.say(wire.pack_job_complete_req(handle))
        ((heard, body),) = self.hears()
        assert heard == wire.JOB_COMPLETE_RES
        parsed = wire.parse_job_complete_res(body)
        assert parsed is not None
        return parsed

    def asks_status(self, handle: bytes) -> tuple[int, int, int]:
        """Numerator, denominator, seconds left."""
        self.say(wire.pack_job_status_req(handle))
        ((heard, body),) = self.hears()
        assert heard == wire.JOB_STATUS_RES, body
        parsed = wire.parse_job_status(body)
        assert parsed is not None
        return parsed

    def says_no_more(self) -> None:
        """As the driver does it when a peer closes its side."""
        self.room.begin()
        self.room.hall.leave(self.session)
        self.session.finish()
        self.room.end()

    def leaves(self) -> None:
        self.room.begin()
        self.room.engine.leave(self.session)
        self.room.end()


class Room:
    """The hall around them. Every turn ends with an audit."""

    def __init__(
        self,
        options: DraftOptions | None = None,
        limits: Limits | None = None,
        retention: Retention | None = None,
    ) -> None:
        self.options = options or DraftOptions()
        self.limits = limits or Limits()
        self.store = MemoryStore(retention, epoch=1)
        self.now_us = START_US
        self.slow = False
        """The store answers only when it is told to."""
        self.trouble = ""
        """Every commit and look-up fails, for this reason."""
        self._descriptor = 10
        self.open()

    def open(self) -> None:
        """Open the hall, perhaps again: who was there is gone, and so is what was not on disk."""
        self.batches: deque[Batch] = deque()
        self.questions: deque[tuple[Session, int]] = deque()
        self.hall = open_scheduler(self.store, self.limits, self.now_us)
        self.engine = Engine(self.hall, self)
        self.door = DraftContext(self.hall, self.options, self.engine.look_up)

    def guest(self) -> Guest:
        self._descriptor += 1
        return Guest(self, self._descriptor)

    def worker(self, *names: bytes) -> Guest:
        return self.guest().say(wire.pack_worker_connect(list(names)))

    # --- turns

    def begin(self) -> None:
        self.engine.begin(self.now_us)

    def end(self) -> None:
        self.engine.end()
        self.hall.audit()
        if not self.slow:
            self.settle()

    def wait(self, duration_us: int) -> None:
        self.now_us += duration_us
        self.begin()
        self.end()

    def settle(self) -> None:
        """Until the store has nothing left to do, or fails."""
        while self.batches or self.questions or (self.engine.busy and not self.hall.store_trouble):
            self.now_us += STEP_US
            self.begin()
            self.answer()
            self.engine.end()
            self.hall.audit()

    # --- the store's side

    def write(self, batch: Batch, now_us: int) -> None:
        self.batches.append(batch)

    def look_up(self, session: Session, job_id: int) -> None:
        self.questions.append((session, job_id))

    def look_up_parents(self, refs: list[ParentRef]) -> None:
        raise AssertionError("nobody has parents here")

    def answer(self) -> None:
        """Inside a turn: what was asked of the store first is answered."""
        if self.batches:
            batch = self.batches.popleft()
            if self.trouble:
                self.engine.failed(self.trouble)
            else:
                self.store.commit(batch, self.now_us)
                self.engine.committed()
        elif self.questions:
            session, job_id = self.questions.popleft()
            found = [] if self.trouble else self.store.history(HistoryQuery(id=job_id, limit=1))
            self.engine.looked_up(session, job_id, found[0] if found else None, self.trouble)
