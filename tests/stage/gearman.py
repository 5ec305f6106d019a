"""A hall in memory with one Gearman door, and its guests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from hiringhall.dialects.gearman import wire
from hiringhall.dialects.gearman.session import GearmanContext, GearmanOptions, GearmanSession, ProcessInfo
from hiringhall.dialects.session import Caller
from stage.guest import Guest
from stage.hall import Hall

if TYPE_CHECKING:
    from hiringhall.core.limits import Limits

Packet = tuple[int, bytes]


class GearmanGuest(Guest):
    """Says requests, hears responses."""

    def say(self, packet_type: int, *args: bytes) -> Self:
        return self.say_bytes(wire.pack_request(packet_type, *args))

    def hears(self) -> list[Packet]:
        reader = wire.Reader(wire.RESPONSE)
        packets = reader.feed(self.reads())
        assert reader.error is None
        assert reader.idle
        return packets

    def hears_one(self) -> Packet:
        (packet,) = self.hears()
        return packet

    def submits(self, packet_type: int, *args: bytes) -> bytes:
        """Submit a job; its handle."""
        heard, handle = self.say(packet_type, *args).hears_one()
        assert heard == wire.JOB_CREATED, handle
        return handle

    def grabs(self) -> bytes:
        """Take a job; its handle."""
        heard, body = self.say(wire.GRAB_JOB).hears_one()
        assert heard == wire.JOB_ASSIGN
        return body.partition(b"\0")[0]

    def is_refused(self, code: bytes) -> str:
        """The text of the one ERROR."""
        heard, body = self.hears_one()
        assert heard == wire.ERROR
        seen, _, text = body.partition(b"\0")
        assert seen == code
        return text.decode()


def gearman_context(
    hall: Hall, options: GearmanOptions | None = None, stops: list[bool] | None = None
) -> GearmanContext:
    """The context of a Gearman door. Requests to stop the process are added to `stops`."""
    process = ProcessInfo("1.2.3", 4711, "INFO", (stops if stops is not None else []).append)
    return GearmanContext(hall.scheduler, options or GearmanOptions(), process)


class GearmanHall(Hall):
    """A hall with a Gearman door."""

    def __init__(self, options: GearmanOptions | None = None, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self.stops: list[bool] = []
        self.context = gearman_context(self, options, self.stops)
        self._descriptor = 10

    def guest(self, address: str = "127.0.0.1") -> GearmanGuest:
        self._descriptor += 1
        return GearmanGuest(self, GearmanSession(Caller(address, self._descriptor), self.context))

    def worker(self, *functions: bytes) -> GearmanGuest:
        guest = self.guest()
        for function in functions:
            guest.say(wire.CAN_DO, function)
        return guest

    def ask(self, line: bytes) -> bytes:
        """The answer to a text command, on a connection of its own."""
        guest = self.guest()
        answer = guest.say_bytes(line + b"\n").reads()
        guest.leaves()
        return answer
