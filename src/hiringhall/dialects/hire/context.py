"""One hire door: its options, who hears what is said there, and the market that it is to the core.

The law: a line is written once for a door, however many hear it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hiringhall.core.peer import Peer
from hiringhall.dialects.hire import wire

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.markets import Rules
    from hiringhall.dialects.hire.hire_bus import HireBus
    from hiringhall.dialects.session import Session

STANDING_MAX: Final = 200
"""Jobs of the hall that one who comes late is told of; all are announced again after a while."""
HALL_ID: Final = b"\x5e\x1d\x8c\x30\x0f\x55\x4b\x0e\x9a\x47\x2b\xc1\x68\x11\x7d\x02"
"""The UUID of a hall that was given none."""


@dataclass(frozen=True)
class HireOptions:
    """How one door treats what comes in by it."""

    id: bytes = HALL_ID
    """The UUID that the hall speaks with. Doors of one hall speak with that of the first."""
    bus: bool = False
    """Everybody hears everybody, and a line is a message. Otherwise peers connect, and lines end with one."""
    compact: bool = False
    """Write lines in their short form."""
    direct: bool = True
    """Where peers connect, tell what is for one only to that one."""
    queues: frozenset[bytes] | None = None
    """Whose jobs are announced here; None: all."""
    posting_us: int = 300_000_000
    """How long a provider's announcement stands; and how long a provider on a bus may be silent."""
    log_all: bool = False
    """The ends of providers' jobs go to the history."""
    speakers_max: int = 100_000
    """On a bus, UUIDs that are known at once."""
    idle_us: int = 600_000_000
    """On a bus, silence after which a UUID that holds nothing is forgotten."""


class HireContext(Peer):
    """A door. To the core it is a market: it hears what is announced, and tells it on."""

    def __init__(self, hire_bus: HireBus, options: HireOptions, rules: Rules) -> None:
        super().__init__()
        self.scheduler = hire_bus.scheduler
        self.hire_bus = hire_bus
        """The bus that all hire doors of the hall share."""
        self.options = options
        self.rules = rules
        self.dropped = 0
        """Lines that were none, or not the speaker's to say."""
        self.sessions: dict[Session, None] = {}
        """Who is told what all hear: each connection, or the bus."""
        self.open_air = options.bus or not options.direct
        """Whatever is said in the bus is heard here by all."""
        hire_bus.add_door(self)
        self._end = b"" if options.bus else b"\n"
        self._market = self.scheduler.auctions.open_market(self, rules, options.queues)

    def enter(self, session: Session) -> None:
        """Somebody listens, and may never say a word."""
        self.sessions[session] = None
        if not self.options.bus:
            self.scheduler.auctions.set_audience(self._market, len(self.sessions))
            self._tell_standing(session)

    def _tell_standing(self, session: Session) -> None:
        """Who comes late hears what stands announced. On a bus nobody can be told apart."""
        jobs = [job for job in self.scheduler.auctions.standing(self._market, STANDING_MAX) if _is_sayable(job)]
        lines = [self._announcement(job) for job in jobs]
        text = b"".join([self.write(line) for line in lines + self.hire_bus.relay.standing()])
        if text:
            session.send(text)

    def depart(self, session: Session) -> None:
        self.sessions.pop(session, None)
        self.scheduler.auctions.set_audience(self._market, 0 if self.options.bus else len(self.sessions))

    def listeners_changed(self, listeners: int) -> None:
        """On a bus: so many listen."""
        self.scheduler.auctions.set_audience(self._market, listeners)

    def announced(self, job: Job) -> None:
        if _is_sayable(job):
            self.spread(self._announcement(job), None)
        else:
            self.dropped += 1

    def _announcement(self, job: Job) -> wire.Line:
        names = self.hire_bus.names
        return wire.Line(names.hall, wire.ANNOUNCE, names.job(job.id), type=job.queue.name)

    def write(self, line: wire.Line) -> bytes:
        return wire.write_line(line, compact=self.options.compact) + self._end

    def spread(self, line: wire.Line, speaker: Session | None) -> None:
        """Tell all, but for the connection that has said it."""
        text = self.write(line)
        for session in self.sessions:
            if session is not speaker or self.options.bus:
                session.send(text)


def _is_sayable(job: Job) -> bool:
    """The name of its queue fits into a line."""
    return len(wire.write_type(job.queue.name)) <= wire.TYPE_BYTES_MAX
