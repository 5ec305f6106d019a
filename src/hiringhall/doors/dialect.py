"""What it takes to open a door of one dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping  # noqa: TC003 (a NamedTuple looks its types up)
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hiringhall.config.quantities import Address  # noqa: TC001 (as above)
from hiringhall.config.schema import DoorSettings  # noqa: TC001 (as above)
from hiringhall.dialects.session import Caller, Session  # noqa: TC001 (as above)

if TYPE_CHECKING:
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.engine.driver import Driver


class Process(NamedTuple):
    """What a dialect may tell about the process, and do to it."""

    pid: int
    log_level: str
    """debug, info, warning or error."""
    stop: Callable[[bool], None]
    """True: let running jobs finish first."""
    look_up: Callable[[Session, int], None]
    """Ask the history for one job: the session's `looked_up` is called in a later turn."""
    name: str = "hall"
    """What the hall is called."""


class Endpoint(NamedTuple):
    """One address that a door listens on."""

    address: Address
    make_session: Callable[[Caller], Session]
    answer_route: Callable[[list[bytes]], list[bytes] | None] | None = None
    """At ZeroMQ's, what goes before a message back to a peer. None: peers connect by TCP."""
    role: str = ""
    """Which of several endpoints of the door it is."""
    guests: Mapping[bytes, Callable[[Caller], Session]] = MappingProxyType({})
    """Other dialects at the same address, each by the bytes that its connections begin with, all of one
    length."""
    outward: Address | None = None
    """Of a ZeroMQ bus, where peers hear what is said; at `address` they say it."""


class Attendant(Protocol):
    """Something that a door does of its own accord while it is open."""

    def start(self) -> None: ...

    def stop_taking(self) -> None:
        """The hall drains: begin nothing new."""

    async def close(self) -> None: ...


class Dialect(NamedTuple):
    """A protocol that can be spoken at a door."""

    settings: type[DoorSettings]
    endpoints: Callable[[Scheduler, Any, Process], list[Endpoint]]
    """The scheduler, the door's settings and the process: what the door opens."""
    first_job: Callable[[Address], str] | None = None
    """A line to paste that runs a first job through a door at this address."""
    attendant: Callable[[Driver, Any], Attendant | None] | None = None
    """What the door does of its own accord, as its settings wish."""


def reachable_host(address: Address) -> str:
    """The host under which somebody on this machine reaches a door."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host)  # noqa: S104 (a reader's view)
