"""A hall in memory with one door for Gearman's draft, and its guests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from hiringhall.dialects.gearman_draft import wire
from hiringhall.dialects.gearman_draft.session import DraftContext, DraftOptions, DraftSession
from hiringhall.dialects.session import Caller
from stage.guest import Guest
from stage.hall import Hall

if TYPE_CHECKING:
    from hiringhall.core.limits import Limits
    from hiringhall.storage.contract import Retention

Packet = tuple[int, bytes]


class DraftGuest(Guest):
    """Says packets, hears packets."""

    def say(self, data: bytes) -> Self:
        """Nothing, once the session is closing: the transport reads no more then."""
        if not self.session.closing:
            self.say_bytes(data)
            self.hall.end()
        return self

    def hears(self) -> list[Packet]:
        reader = wire.Reader()
        packets = reader.feed(b"".join(self.take_messages()))
        assert reader.error is None
        assert reader.idle
        return packets

    def is_refused(self, code: int) -> str:
        """The text of the one error."""
        ((heard, body),) = self.hears()
        assert heard == wire.JOB_COMPLETE_RES
        assert body[:5] == b"\xff\xff\xff\xff" + bytes([code]), body
        assert body[5:]
        return body[5:].decode()

    def creates(self, name: bytes, key: bytes = b"", args: bytes = b"", flags: int = 0) -> bytes:
        """Submit an async job; its handle."""
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
        assert self.hears() == []

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


class DraftHall(Hall):
    """A hall with a door for the draft."""

    def __init__(
        self,
        options: DraftOptions | None = None,
        limits: Limits | None = None,
        retention: Retention | None = None,
    ) -> None:
        self.options = options or DraftOptions()
        self._descriptor = 10
        super().__init__(limits, retention=retention)

    def open(self) -> None:
        super().open()
        self.context = DraftContext(self.scheduler, self.options, self.engine.look_up)

    def guest(self) -> DraftGuest:
        self._descriptor += 1
        return DraftGuest(self, DraftSession(Caller("127.0.0.1", self._descriptor), self.context))

    def worker(self, *names: bytes) -> DraftGuest:
        return self.guest().say(wire.pack_worker_connect(list(names)))
