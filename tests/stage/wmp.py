"""A hall in memory with one WMP door, and the paths of its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from hiringhall.dialects.session import Caller
from hiringhall.dialects.wmp import wire
from hiringhall.dialects.wmp.session import WmpContext, WmpOptions, WmpSession
from stage.guest import Guest
from stage.hall import Hall
from stage.watcher import Watcher

if TYPE_CHECKING:
    from hiringhall.core.limits import Limits

SECRET: Final = b"a secret of thirty-two bytes now"


class Path(Guest):
    """A worker at the end of one path: says messages, hears messages."""

    def says(self, command: bytes, *headers: tuple[bytes, bytes], payload: bytes = b"") -> Self:
        return self.say_bytes(wire.encode_body(command, list(headers), payload))

    def hears(self) -> list[wire.Message]:
        return [wire.parse_body(body) for body in self.messages()]

    def hears_one(self, command: bytes) -> wire.Message:
        (message,) = self.hears()
        assert message.command == command
        assert message.first(b"manager") == b"hall"
        return message

    def hears_nothing(self) -> None:
        assert [message.command for message in self.hears()] == []

    def is_ready(self, *roles: bytes) -> Self:
        return self.says(wire.READY, *[(b"role", role) for role in roles])

    def is_woken(self, role: bytes) -> Self:
        assert self.hears_one(wire.WAKE).first(b"role") == role
        return self

    def takes(self, role: bytes) -> bytes:
        """GIVE and TAKE; the name of the job."""
        return self.says(wire.GIVE, (b"role", role)).hears_one(wire.TAKE).first(b"job")

    def is_denied(self, role: bytes) -> None:
        assert self.says(wire.GIVE, (b"role", role)).hears_one(wire.NO).first(b"role") == role

    def reports(self, job: bytes, *headers: tuple[bytes, bytes], payload: bytes = b"") -> Self:
        return self.says(wire.DONE, (b"manager", b"hall"), (b"job", job), *headers, payload=payload)

    def shows(self, job: bytes, *headers: tuple[bytes, bytes], payload: bytes = b"") -> Self:
        return self.says(wire.STATUS, (b"manager", b"hall"), (b"job", job), *headers, payload=payload)


class WmpHall(Hall):
    """A hall with a WMP door."""

    def __init__(self, options: WmpOptions | None = None, limits: Limits | None = None, epoch: int = 1) -> None:
        super().__init__(limits, epoch=epoch)
        self.context = WmpContext(self.scheduler, options or WmpOptions(), SECRET)
        self._names = 0

    def path(self, caller: Caller | None = None, context: WmpContext | None = None) -> Path:
        """A new path, or one by which somebody has come before."""
        self._names += 1
        caller = caller or Caller("127.0.0.1", -1, (b"p%d" % self._names, b"", b""))
        return Path(self, WmpSession(caller, context or self.context))

    def client(self) -> Watcher:
        """Somebody who waits for jobs."""
        return Watcher(self)

    @property
    def stale(self) -> int:
        return self.scheduler.counters.stale
