"""What all sessions of one hire door share: its options, its listeners, and its market in the core.

Invariant: a line is encoded once for each door, however many sessions receive it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hiringhall.core.peer import Peer
from hiringhall.dialects.hire import wire

if TYPE_CHECKING:
    from hiringhall.core.bidding.markets import Rules
    from hiringhall.core.jobs import Job
    from hiringhall.dialects.hire.hire_bus import HireBus
    from hiringhall.dialects.session import Session

ANNOUNCEMENTS_MAX: Final = 200
"""Announcements of the hall's own jobs that a new connection is sent. All are repeated after a while."""
HALL_ID: Final = b"\x5e\x1d\x8c\x30\x0f\x55\x4b\x0e\x9a\x47\x2b\xc1\x68\x11\x7d\x02"
"""The default UUID of a hall."""


@dataclass(frozen=True)
class HireOptions:
    """The settings of one hire door."""

    id: bytes = HALL_ID
    """The UUID of the hall. All hire doors of a hall use that of the first."""
    bus: bool = False
    """Whether the door is a ZeroMQ bus, where each line is a message that everybody receives. Otherwise peers
    connect over TCP, and a newline ends each line."""
    compact: bool = False
    """Whether the hall writes lines in their compact form."""
    direct: bool = True
    """Over TCP, whether a line for one peer is sent only to that peer."""
    queues: frozenset[bytes] | None = None
    """The queues whose jobs are announced here; None: all."""
    posting_us: int = 300_000_000
    """When a provider's announcement expires, and how long a provider on a bus may be silent."""
    log_all: bool = False
    """Whether the ends of providers' jobs go to the history."""
    participants_max: int = 100_000
    """On a bus, the limit for participants."""
    idle_us: int = 600_000_000
    """On a bus, silence after which an idle participant is forgotten."""


class HireContext(Peer):
    """To the core it is a market: it is told which jobs to announce."""

    def __init__(self, hire_bus: HireBus, options: HireOptions, rules: Rules) -> None:
        super().__init__()
        self.scheduler = hire_bus.scheduler
        self.hire_bus = hire_bus
        """The bus that all hire doors of the hall share."""
        self.options = options
        self.rules = rules
        self.dropped = 0
        """Bad lines, and jobs that could not be announced."""
        self.sessions: dict[Session, None] = {}
        """Every connection of the door, or the bus."""
        self.public = options.bus or not options.direct
        """Whether every line between participants is sent to all sessions of this door."""
        hire_bus.add_context(self)
        self._end = b"" if options.bus else b"\n"
        self._market = self.scheduler.auctions.open_market(self, rules, options.queues)

    def add_session(self, session: Session) -> None:
        """A session that listens; it may never send anything."""
        self.scheduler.auctions.tell_announced()  # or it would be told twice
        self.sessions[session] = None
        if not self.options.bus:
            self.scheduler.auctions.set_audience(self._market, len(self.sessions))
            self._send_announcements(session)

    def _send_announcements(self, session: Session) -> None:
        """Tell a new connection what is announced. On a bus there is no way to tell only one listener."""
        jobs = self.scheduler.auctions.standing(self._market, ANNOUNCEMENTS_MAX)
        lines = [self._announcement(job) for job in jobs if _fits_line(job)]
        text = b"".join([self.write(line) for line in lines + self.hire_bus.relay.announcements()])
        if text:
            session.send(text)

    def remove_session(self, session: Session) -> None:
        self.sessions.pop(session, None)
        self.scheduler.auctions.set_audience(self._market, 0 if self.options.bus else len(self.sessions))

    def listeners_changed(self, listeners: int) -> None:
        """On a bus: the number of listeners has changed."""
        self.scheduler.auctions.set_audience(self._market, listeners)

    def announced(self, jobs: list[Job]) -> None:
        lines = [self.write(self._announcement(job)) for job in jobs if _fits_line(job)]
        self.dropped += len(jobs) - len(lines)
        if lines and not self.options.bus:
            lines = [b"".join(lines)]
        for session in self.sessions:
            for text in lines:
                session.send(text)

    def _announcement(self, job: Job) -> wire.Line:
        names = self.hire_bus.names
        return wire.Line(names.hall, wire.ANNOUNCE, names.job(job.id), type=job.queue.name)

    def write(self, line: wire.Line) -> bytes:
        return wire.write_line(line, compact=self.options.compact) + self._end

    def broadcast(self, line: wire.Line, sender: Session | None) -> None:
        """Send a line to all sessions of this door, except to the connection that it came from."""
        text = self.write(line)
        for session in self.sessions:
            if session is not sender or self.options.bus:
                session.send(text)


def _fits_line(job: Job) -> bool:
    """Whether the name of its queue fits into a line."""
    return len(wire.write_type(job.queue.name)) <= wire.TYPE_BYTES_MAX
