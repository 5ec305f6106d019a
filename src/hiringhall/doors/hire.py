"""Hire doors, over TCP and on a ZeroMQ bus: their settings, the options and rules that follow from these, and
what opens the doors.
"""

import dataclasses
import uuid
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from msgspec import Meta

from hiringhall.config.fields import YEAR_S, ListenAddress
from hiringhall.config.quantities import Address, Size, Words
from hiringhall.config.schema import TcpDoorSettings, ZmqDoorSettings
from hiringhall.core.bidding.markets import Rules
from hiringhall.core.limits import SECOND_US
from hiringhall.dialects.hire.bus import BusSession
from hiringhall.dialects.hire.context import HireContext, HireOptions
from hiringhall.dialects.hire.hire_bus import HireBus
from hiringhall.dialects.hire.session import LineSession
from hiringhall.doors.dialect import Dialect, DialectDoors, HallAccess
from hiringhall.doors.policies import find_policy
from hiringhall.endpoints import BusEndpoint, Endpoint, TcpEndpoint

_HALLS: Final = uuid.UUID("d1b7a6f2-5c1e-5e0b-9b0a-2f6f0f1f6c51")
"""The namespace of the UUIDs that are derived from names of halls."""
_COALESCE_SHARE: Final = 4
"""Jobs wait for one part in so many of the window, to be announced together."""
_COALESCE_US_MAX: Final = 20_000
_COALESCE_US_MIN: Final = 1_000
"""If the time would be shorter than this, no job waits: few others would come."""

PolicyName = Annotated[
    str,
    Meta(
        min_length=1,
        description="Which bid wins: soonest, best_skill, sufficient_skill, least_waiting, or module:function.",
    ),
]
Window = Annotated[
    float, Meta(ge=0, le=3600, description="How long bids are accepted after a job was announced.")
]
Travel = Annotated[
    float,
    Meta(ge=0, le=YEAR_S, description="Travel time, added to the time in which a worker says it can begin."),
]
Buffer = Annotated[
    float,
    Meta(ge=0.001, le=YEAR_S, description="How long after the promised time a worker may still start."),
]
Answer = Annotated[
    float,
    Meta(ge=0.001, le=YEAR_S, description="How long a worker may take to answer PERFORM with PERFORMING."),
]
Ahead = Annotated[
    float, Meta(ge=0, le=YEAR_S, description="How long before its due time a delayed job is announced.")
]
Perform = Annotated[
    float,
    Meta(
        ge=0,
        le=YEAR_S,
        description="The assumed run time of a job, if it gives none and none of its type was timed.",
    ),
]
Pause = Annotated[
    float,
    Meta(
        ge=0.001,
        le=YEAR_S,
        description="The delay before a job that got no worker is announced again; it doubles each time.",
    ),
]
PauseMax = Annotated[float, Meta(ge=0.001, le=YEAR_S, description="The longest such delay.")]
PromiseMax = Annotated[
    float,
    Meta(
        ge=0.001,
        le=YEAR_S,
        description="Workers that could begin only after this many seconds are not hired.",
    ),
]
Types = Annotated[
    Words, Meta(description="The job types (queues) that are announced at this door; empty: all of them.")
]
Compact = Annotated[bool, Meta(description="Send lines in their short form; both forms are always accepted.")]
Posting = Annotated[
    float,
    Meta(
        ge=0.001,
        le=YEAR_S,
        description="How long a provider's announcement is valid; on a bus, how long it may be silent.",
    ),
]
Identity = Annotated[
    str, Meta(description="The UUID with which the hall speaks; if empty, it is derived from hall.name.")
]


class HireDoorSettings(TcpDoorSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A door at which jobs are announced and workers bid for them, in lines over TCP. A job type is a queue."""

    dialect: Annotated[Literal["hire"], Meta(description="The protocol spoken at this door.")] = "hire"
    address: ListenAddress = Address("127.0.0.1:7430")
    policy: PolicyName = "soonest"
    window_s: Window = 0.1
    travel_s: Travel = 0.0
    buffer_s: Buffer = 5.0
    answer_s: Answer = 5.0
    ahead_s: Ahead = 0.0
    perform_s: Perform = 10.0
    pause_s: Pause = 0.25
    pause_max_s: PauseMax = 5.0
    promise_max_s: PromiseMax = 3600.0
    types: Types = Words()
    direct: Annotated[
        bool, Meta(description="Send a message for one peer to that peer only; false: all peers receive it.")
    ] = True
    compact: Compact = False
    posting_s: Posting = 300.0
    id: Identity = ""

    def faults(self) -> Iterator[tuple[str, str]]:
        yield from super().faults()
        yield from _faults(self)

    @property
    def queues(self) -> tuple[tuple[str, str], ...]:
        return tuple(("types", name) for name in self.types)

    def options(self, hall_name: str) -> HireOptions:
        return dataclasses.replace(_options(self, hall_name), direct=self.direct)

    def endpoint(self, context: HireContext) -> Endpoint:
        return TcpEndpoint(self, lambda caller: LineSession(caller, context))


class HireBusDoorSettings(ZmqDoorSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A door at which jobs are announced and workers bid for them, on a ZeroMQ bus. All peers receive all
    messages.
    """

    dialect: Annotated[Literal["hire-bus"], Meta(description="The protocol spoken at this door.")] = "hire-bus"
    address: Annotated[Address, Meta(description="Where peers publish; port 0 lets the system choose.")] = (
        Address("127.0.0.1:7431")
    )
    subscribe: Annotated[Address, Meta(description="Where peers subscribe; port 0 lets the system choose.")] = (
        Address("127.0.0.1:7432")
    )
    policy: PolicyName = "soonest"
    window_s: Window = 0.1
    travel_s: Travel = 0.0
    buffer_s: Buffer = 5.0
    answer_s: Answer = 5.0
    ahead_s: Ahead = 0.0
    perform_s: Perform = 10.0
    pause_s: Pause = 0.25
    pause_max_s: PauseMax = 5.0
    promise_max_s: PromiseMax = 3600.0
    types: Types = Words()
    compact: Compact = False
    posting_s: Posting = 300.0
    id: Identity = ""
    message_bytes_max: Annotated[
        Size, Meta(description="The longest frame; a peer that sends a longer one is disconnected.")
    ] = Size(64 << 10)
    receive_messages_max: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Messages of one connection that are taken in one turn."),
    ] = 10_000
    send_messages_max: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Messages that wait for one subscriber; it misses further ones.",
        ),
    ] = 10_000

    def faults(self) -> Iterator[tuple[str, str]]:
        yield from super().faults()
        yield from _faults(self)

    @property
    def addresses(self) -> tuple[Address, ...]:
        return (self.address, self.subscribe)

    @property
    def queues(self) -> tuple[tuple[str, str], ...]:
        return tuple(("types", name) for name in self.types)

    def options(self, hall_name: str) -> HireOptions:
        return dataclasses.replace(
            _options(self, hall_name),
            bus=True,
            participants_max=self.peers_max,
            idle_us=round(self.idle_s * SECOND_US),
        )

    def endpoint(self, context: HireContext) -> Endpoint:
        return BusEndpoint(
            self,
            self.address,
            self.subscribe,
            lambda caller: BusSession(caller, context),
            self.send_messages_max,
        )


HireSettings = HireDoorSettings | HireBusDoorSettings


def _faults(settings: HireSettings) -> Iterator[tuple[str, str]]:
    if settings.pause_max_s < settings.pause_s:
        yield "pause_max_s", f"must be at least pause_s, which is {settings.pause_s:g}"
    try:
        find_policy(settings.policy)
    except LookupError as error:
        yield "policy", str(error)
    if settings.id:
        try:
            uuid.UUID(settings.id)
        except ValueError:
            yield "id", f'"{settings.id}" is not a valid UUID; it takes one such as {_HALLS}'


def rules(settings: HireSettings) -> Rules:
    window_us = round(settings.window_s * SECOND_US)
    coalesce_us = min(window_us // _COALESCE_SHARE, _COALESCE_US_MAX)
    return Rules(
        find_policy(settings.policy),
        settings.policy,
        window_us=window_us,
        travel_us=round(settings.travel_s * SECOND_US),
        buffer_us=round(settings.buffer_s * SECOND_US),
        answer_us=round(settings.answer_s * SECOND_US),
        ahead_us=round(settings.ahead_s * SECOND_US),
        perform_us=round(settings.perform_s * SECOND_US),
        pause_us=round(settings.pause_s * SECOND_US),
        pause_max_us=round(settings.pause_max_s * SECOND_US),
        promise_max_us=round(settings.promise_max_s * SECOND_US),
        coalesce_us=coalesce_us if coalesce_us >= _COALESCE_US_MIN else 0,
    )


def _options(settings: HireSettings, hall_name: str) -> HireOptions:
    """The options that both kinds of hire doors have."""
    identity = uuid.UUID(settings.id) if settings.id else uuid.uuid5(_HALLS, hall_name)
    return HireOptions(
        id=identity.bytes,
        compact=settings.compact,
        queues=frozenset(queue.encode() for queue in settings.types) if settings.types else None,
        posting_us=round(settings.posting_s * SECOND_US),
        log_all=settings.log == "all",
    )


class HireDoors(DialectDoors[HireSettings]):
    """The hire doors of one hall, of both kinds. They share one bus, which has the id of the first door."""

    def __init__(self, hall: HallAccess) -> None:
        super().__init__(hall)
        self._hire_bus: HireBus | None = None

    def endpoints(self, settings: HireSettings) -> list[Endpoint]:
        options = settings.options(self.hall.name)
        if self._hire_bus is None:
            self._hire_bus = HireBus(self.hall.driver.scheduler, options.id)
        context = HireContext(self._hire_bus, options, rules(settings))
        return [settings.endpoint(context)]


HIRE: Final = Dialect({"hire": HireDoorSettings, "hire-bus": HireBusDoorSettings}, HireDoors)
