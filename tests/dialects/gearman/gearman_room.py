"""A hall with one Gearman door, and guests who talk to it without a socket."""

from __future__ import annotations

from hiringhall.core.limits import Limits
from hiringhall.core.scheduler import Scheduler
from hiringhall.dialects.gearman import wire
from hiringhall.dialects.gearman.session import GearmanContext, GearmanOptions, GearmanSession, ProcessInfo
from hiringhall.dialects.session import Caller, Session

START_US = 1_767_225_600_000_000
"""Thursday, 1 January 2026, midnight UTC."""
SECOND_US = 1_000_000

Packet = tuple[int, bytes]


class Guest:
    """Somebody at the door: says packets, hears packets."""

    def __init__(self, room: Room, descriptor: int, address: str) -> None:
        self.room = room
        self.session = GearmanSession(Caller(address, descriptor), room.door)
        self.session.outbox = room.outbox

    def say(self, packet_type: int, *args: bytes) -> Guest:
        return self.say_bytes(wire.pack_request(packet_type, *args))

    def say_bytes(self, data: bytes) -> Guest:
        self.session.receive(data)
        return self

    def reads(self) -> bytes:
        """Everything said to the guest since the last time, after the end of a turn."""
        self.room.end_turn()
        data = b"".join(self.session.out)
        self.session.out.clear()
        self.session.pledges = None
        if self.session in self.room.outbox:
            self.room.outbox.remove(self.session)
        return data

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
        """Submit, and the handle."""
        heard, handle = self.say(packet_type, *args).hears_one()
        assert heard == wire.JOB_CREATED, handle
        return handle

    def grabs(self) -> bytes:
        """Take a job, and its handle."""
        heard, body = self.say(wire.GRAB_JOB).hears_one()
        assert heard == wire.JOB_ASSIGN
        return body.partition(b"\0")[0]

    def is_refused(self, code: bytes) -> str:
        """What the one ERROR says."""
        heard, body = self.hears_one()
        assert heard == wire.ERROR
        seen, _, text = body.partition(b"\0")
        assert seen == code
        return text.decode()

    def leaves(self) -> None:
        self.room.hall.leave(self.session)
        self.session.disconnected()
        self.room.end_turn()


class Room:
    """The hall around them. Every turn ends with an audit."""

    def __init__(self, options: GearmanOptions | None = None, limits: Limits | None = None) -> None:
        self.hall = Scheduler(limits or Limits(), 1, START_US)
        self.stops: list[bool] = []
        process = ProcessInfo("1.2.3", 4711, "INFO", self.stops.append)
        self.door = GearmanContext(self.hall, options or GearmanOptions(), process)
        self.outbox: list[Session] = []
        self._descriptor = 10

    def guest(self, address: str = "127.0.0.1") -> Guest:
        self._descriptor += 1
        return Guest(self, self._descriptor, address)

    def worker(self, *functions: bytes) -> Guest:
        guest = self.guest()
        for function in functions:
            guest.say(wire.CAN_DO, function)
        return guest

    def end_turn(self) -> None:
        self.hall.settle()
        self.hall.audit()
        batch = self.hall.seal()
        if not batch.empty:
            self.hall.committed(batch)

    def wait(self, duration_us: int) -> None:
        self.hall.advance(self.hall.now_us + duration_us)
        self.end_turn()

    def ask(self, line: bytes) -> bytes:
        """A text command from somebody who comes in, asks and leaves."""
        guest = self.guest()
        answer = guest.say_bytes(line + b"\n").reads()
        guest.leaves()
        return answer
