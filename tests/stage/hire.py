"""A hall in memory with hire doors, and its guests: on connections of their own, or on a bus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from hiringhall.core.bidding.markets import Rules
from hiringhall.core.bidding.policies import soonest
from hiringhall.core.terms import DEFAULT_TERMS
from hiringhall.dialects.hire.bus import BusSession
from hiringhall.dialects.hire.hire_bus import HireBus
from hiringhall.dialects.hire.session import HireContext, HireOptions, LineSession
from hiringhall.dialects.session import Caller
from stage.guest import Guest
from stage.hall import SECOND_US, Hall
from stage.watcher import Watcher

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.limits import Limits
    from hiringhall.core.terms import Terms

FIRST_JOB: Final = 1 << 36


class HireGuest(Guest):
    """A participant on a connection of its own: says lines, hears lines."""

    def __init__(self, hall: Hall, context: HireContext) -> None:
        super().__init__(hall, LineSession(Caller("127.0.0.1", 3), context))

    def says(self, *lines: str | bytes) -> Self:
        return self.say_bytes(*(_encode(line) + b"\n" for line in lines))

    def hears(self) -> list[str]:
        text = self.reads().decode()
        assert not text or text.endswith("\n")
        return text.splitlines()


class Bus(Guest):
    """A bus, and what is heard on it: each message is one line."""

    def __init__(self, hall: Hall, context: HireContext) -> None:
        super().__init__(hall, BusSession(Caller("", -1), context))
        self.session.listeners_changed(1)

    def says(self, *lines: str | bytes) -> Self:
        return self.say_bytes(*map(_encode, lines))

    def hears(self) -> list[str]:
        return [message.decode() for message in self.messages()]


class HireHall(Hall):
    """A hall for hire doors."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self.client = Watcher(self)
        self.hire_bus: HireBus | None = None
        """Shared by all doors; it has the id of the first."""

    def door(self, options: HireOptions | None = None, rules: Rules | None = None) -> HireContext:
        """The context of a new door."""
        options = options or HireOptions()
        if self.hire_bus is None:
            self.hire_bus = HireBus(self.scheduler, options.id)
        return HireContext(self.hire_bus, options, rules or Rules(soonest))

    def guest(self, context: HireContext) -> HireGuest:
        return HireGuest(self, context)

    def submits(self, queue: bytes, terms: Terms = DEFAULT_TERMS, due_us: int = 0) -> Job:
        return self.client.submits(queue, terms=terms, due_us=due_us)

    def job(self, number: int) -> Job | None:
        return self.scheduler.find(FIRST_JOB + number)

    def wait_s(self, duration_s: float) -> None:
        self.wait(round(duration_s * SECOND_US))


def _encode(line: str | bytes) -> bytes:
    return line.encode() if isinstance(line, str) else line
