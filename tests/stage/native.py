"""A hall in memory with one native door, and its guests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hiringhall.dialects.native import wire
from hiringhall.dialects.native.bounds import DEFAULT_BOUNDS, Bounds
from hiringhall.dialects.native.context import NativeContext, NativeOptions
from hiringhall.dialects.native.services import HallServices
from hiringhall.dialects.native.session import NativeSession
from hiringhall.dialects.session import Caller
from stage.guest import Guest
from stage.hall import Hall

if TYPE_CHECKING:
    from hiringhall.core.limits import Limits
    from hiringhall.dialects.hall import Access, AuditTrail, DoorState
    from hiringhall.dialects.session import Reporter

Frame = tuple[str, int, Any]


class NativeGuest(Guest):
    """One connection: says frames, hears frames."""

    number = 0
    welcome: Any = None
    """The answer to hello; the code if it is an error."""

    def says(self, kind: str, body: object, number: int = 0) -> list[Frame]:
        """Send one frame, end the turn; every frame that comes back."""
        self.say_bytes(wire.encode(kind, number, body))
        return self.hears()

    def hears(self) -> list[Frame]:
        """End the turn; every frame since the last time."""
        reader = wire.Reader(1 << 30)
        frames: list[Frame] = []
        for frame in reader.feed(self.reads()):
            kind, number, body = msgspec.msgpack.decode(frame)
            frames.append((kind, number, body))
        assert not reader.kept
        return frames

    def asks(self, kind: str, body: object) -> Any:
        """Send a request; the body of its answer, which must be the only frame. An error is its code."""
        ((said, _, answer),) = self.says_numbered(kind, body)
        return answer[0] if said == wire.ERROR else answer

    def says_numbered(self, kind: str, body: object) -> list[Frame]:
        """Send a request with the next number; every frame that comes back."""
        self.number += 1
        return self.says(kind, body, self.number)

    def submits(self, *keys: bytes, watch: int = 0, again: bool = False, queue: bytes = b"q") -> list[Frame]:
        """Submit a durable job for each key; every frame that comes back."""
        jobs = [(queue, b"work of " + key, {}, key, 0, []) for key in keys]
        return self.says_numbered(wire.SUBMIT, (watch, jobs, again))

    def works(self, queue: bytes = b"q", slots: int = 1, run_us: int = 0) -> list[Frame]:
        """Offer slots; the frames that follow the answer."""
        return self.says_numbered(wire.WORK, (b"bob", slots, [(queue, run_us, 0)], -1, 0))[1:]


class NativeHall(Hall):
    """A hall with a native door."""

    def __init__(
        self,
        options: NativeOptions | None = None,
        limits: Limits | None = None,
        reporter: Reporter | None = None,
        bounds: Bounds = DEFAULT_BOUNDS,
        access: Access | None = None,
        audit: AuditTrail | None = None,
    ) -> None:
        self.options = options or NativeOptions()
        self.bounds = bounds
        self.access = access
        self.audit = audit
        self.doors: list[DoorState] = []
        self._port = 40_000
        super().__init__(limits, reporter=reporter)

    def open(self) -> None:
        super().open()
        services = HallServices(
            self.scheduler,
            self.engine.search,
            self.doors.copy,
            None,
            self.bounds,
            access=self.access,
            audit=self.audit,
        )
        look_ups = (self.engine.look_up, self.engine.look_up_keys, self.engine.look_up_output)
        self.context = NativeContext(self.scheduler, self.options, *look_ups, services)

    def guest(self, address: str = "127.0.0.1", **hello: object) -> NativeGuest:
        guest = self.stranger(address)
        guest.welcome = guest.asks(wire.HELLO, {"version": 1, **hello})
        return guest

    def stranger(self, address: str = "127.0.0.1") -> NativeGuest:
        """A connection that has not said hello."""
        self._port += 1
        return NativeGuest(self, NativeSession(Caller(address, self._port, (), self._port), self.context))
