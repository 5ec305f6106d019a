"""Workers of other dialects in a hall with hire doors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.ratings import Rating, Ratings
from hiringhall.dialects.dwork import wire as dwork
from hiringhall.dialects.dwork.context import DworkContext, DworkOptions
from hiringhall.dialects.dwork.session import DworkSession
from hiringhall.dialects.gearman import wire as gearman
from hiringhall.dialects.gearman.session import GearmanSession
from hiringhall.dialects.pingpong.context import PingPongContext, PingPongOptions
from hiringhall.dialects.pingpong.session import WorkerSession
from hiringhall.dialects.session import Caller
from hiringhall.dialects.wmp import wire as wmp
from hiringhall.dialects.wmp.session import WmpContext, WmpOptions, WmpSession
from stage.gearman import GearmanGuest, gearman_context
from stage.guest import Guest
from stage.pingpong import PingPongGuest
from stage.wmp import Path

if TYPE_CHECKING:
    from stage.hall import Hall


class GearmanWorker(GearmanGuest):
    """Asleep until there is work."""

    def __init__(self, hall: Hall, function: bytes) -> None:
        super().__init__(hall, GearmanSession(Caller("127.0.0.1", 4), gearman_context(hall)))
        self.handle = b""
        self.say(gearman.CAN_DO, function).say(gearman.PRE_SLEEP)

    def takes(self) -> None:
        """It is woken, and given the job."""
        assert [kind for kind, _ in self.hears()] == [gearman.NOOP]
        self.handle = self.grabs()

    def completes(self) -> None:
        self.say(gearman.WORK_COMPLETE, self.handle, b"flour")

    def fails(self) -> None:
        self.say(gearman.WORK_FAIL, self.handle)


class PingPongWorker(PingPongGuest):
    """Grinds."""

    def __init__(self, hall: Hall) -> None:
        context = PingPongContext(hall.scheduler, PingPongOptions(queue=b"grind"))
        super().__init__(hall, WorkerSession(Caller("127.0.0.1", -1, (b"pong", b"")), context))

    def says(self, body: bytes) -> list[bytes]:
        """What it hears then."""
        return self.say(body).hears()


class WmpWorker(Path):
    """Grinds."""

    def __init__(self, hall: Hall, *ready: tuple[bytes, bytes]) -> None:
        context = WmpContext(hall.scheduler, WmpOptions(), bytes(32))
        super().__init__(hall, WmpSession(Caller("127.0.0.1", -1, (b"w", b"", b"")), context))
        self.says(wmp.READY, (b"role", b"grind"), *ready).hears()

    def asks(self, *headers: tuple[bytes, bytes]) -> list[wmp.Message]:
        """GIVE, and what it hears then."""
        return self.says(wmp.GIVE, *headers).hears()

    def done(self, taken: wmp.Message, status: bytes) -> None:
        headers = [(name, taken.first(name)) for name in (b"manager", b"job")]
        self.says(wmp.DONE, *headers, (b"status", status)).hears()


class Location(Guest):
    """A dwork worker that grinds: one location."""

    def __init__(self, hall: Hall, *, skill: int = 7) -> None:
        hall.scheduler.needs.set_ratings(Ratings([(b"node-1", Rating({b"grind": skill}, 0))]))
        context = DworkContext(hall.scheduler, DworkOptions(queue=b"grind"))
        super().__init__(hall, DworkSession(Caller("127.0.0.1", -1), context))

    def asks(self, request: int, tasks: list[bytes] | None = None) -> dwork.Query:
        (answer,) = self.say_bytes(dwork.encode(request, tasks or [], location=b"node-1")).messages()
        return dwork.parse(answer)
