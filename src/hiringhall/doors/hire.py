"""The hire doors, over TCP and on a ZeroMQ bus: settings in people's units and words, and what they open."""

import importlib
import logging
import uuid
from collections.abc import Callable, Iterator
from typing import Annotated, Final, Literal

from msgspec import Meta

from hiringhall.config.quantities import Address, Size, Words
from hiringhall.config.schema import TcpDoorSettings, ZmqDoorSettings
from hiringhall.core.limits import SECOND_US
from hiringhall.core.markets import Ask, Offer, Rules
from hiringhall.core.policies import POLICIES, soonest
from hiringhall.core.scheduler import Scheduler
from hiringhall.dialects.hire.bus import BusSession
from hiringhall.dialects.hire.context import HireContext, HireOptions
from hiringhall.dialects.hire.session import LineSession
from hiringhall.doors.dialect import Dialect, Endpoint, Process

Policy = Callable[[list[Offer], Ask], Offer | None]

_YEAR_S: Final = 31_536_000
_HALLS: Final = uuid.UUID("d1b7a6f2-5c1e-5e0b-9b0a-2f6f0f1f6c51")
"""The namespace in which a hall's name becomes its UUID."""

_log = logging.getLogger("hiringhall")

PolicyName = Annotated[
    str,
    Meta(
        min_length=1,
        description="Whom to hire: soonest, best_skill, sufficient_skill, least_waiting, or module:function.",
    ),
]
Window = Annotated[float, Meta(ge=0, le=3600, description="How long bids are taken after a job was announced.")]
Travel = Annotated[
    float, Meta(ge=0, le=_YEAR_S, description="The way of every worker, on top of the time that it names.")
]
Buffer = Annotated[
    float, Meta(ge=0.001, le=_YEAR_S, description="How much later than promised a worker may start.")
]
Answer = Annotated[
    float,
    Meta(ge=0.001, le=_YEAR_S, description="How long a worker told to perform may take to say that it does."),
]
Ahead = Annotated[
    float, Meta(ge=0, le=_YEAR_S, description="How long before it is due a delayed job is announced.")
]
Perform = Annotated[
    float, Meta(ge=0, le=_YEAR_S, description="How long a job takes that does not say so and is the first.")
]
Pause = Annotated[
    float,
    Meta(
        ge=0.001,
        le=_YEAR_S,
        description="The pause before a job that nobody wanted is announced again; it doubles each time.",
    ),
]
PauseMax = Annotated[float, Meta(ge=0.001, le=_YEAR_S, description="The longest such pause.")]
PromiseMax = Annotated[
    float, Meta(ge=0.001, le=_YEAR_S, description="Who can begin only later than in so long is not hired.")
]
Types = Annotated[
    Words, Meta(description="The job types, its queues, that are announced here; none named: all.")
]
Compact = Annotated[
    bool, Meta(description="Write lines in their short form; both forms are always understood.")
]
Posting = Annotated[
    float,
    Meta(
        ge=0.001,
        le=_YEAR_S,
        description="How long a provider's announcement stands; on a bus, how long it may be silent.",
    ),
]
Identity = Annotated[
    str, Meta(description="The UUID that the hall speaks with; left empty, it is made from hall.name.")
]


class HireDoorSettings(TcpDoorSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A door for announce, bid, hire and perform, in lines over TCP. A job type is a queue."""

    dialect: Annotated[Literal["hire"], Meta(description="The protocol spoken at this door.")] = "hire"
    address: Annotated[Address, Meta(description="Where to listen; port 0 lets the system choose.")] = Address(
        "127.0.0.1:7430"
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
    direct: Annotated[
        bool, Meta(description="Tell what is for one peer only to that one; false: all hear everything.")
    ] = True
    posting_s: Posting = 300.0
    id: Identity = ""

    def faults(self) -> Iterator[tuple[str, str]]:
        yield from super().faults()
        yield from _faults(self)

    @property
    def queues(self) -> tuple[tuple[str, str], ...]:
        return tuple(("types", name) for name in self.types)


class HireBusDoorSettings(ZmqDoorSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A door for announce, bid, hire and perform, on a ZeroMQ bus where everybody hears everybody."""

    dialect: Annotated[Literal["hire-bus"], Meta(description="The protocol spoken at this door.")] = "hire-bus"
    address: Annotated[
        Address, Meta(description="Where peers publish what they say; port 0 lets the system choose.")
    ] = Address("127.0.0.1:7431")
    subscribe: Annotated[
        Address, Meta(description="Where peers subscribe to what is said; port 0 lets the system choose.")
    ] = Address("127.0.0.1:7432")
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
        Size, Meta(description="The longest frame; whoever sends a longer one is disconnected.")
    ] = Size(64 << 10)
    receive_messages_max: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Messages of one peer held until they are taken.")
    ] = 10_000
    send_messages_max: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Messages held for one subscriber; it misses what is beyond."),
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
            yield "id", f'"{settings.id}" is no UUID, such as {_HALLS}'


def find_policy(name: str) -> Policy:
    """A policy by its name, or one's own as `module:function`. Raises LookupError."""
    if name in POLICIES:
        return POLICIES[name]
    module, colon, function = name.partition(":")
    if not colon:
        raise LookupError(f'"{name}" is none of {", ".join(POLICIES)}, nor module:function')
    try:
        found = getattr(importlib.import_module(module), function)
    except Exception as error:
        raise LookupError(f'"{name}" cannot be loaded: {error}') from error
    if callable(found):
        return OwnPolicy(name, found)
    raise LookupError(f'"{name}" is no function')


class OwnPolicy:
    """A policy that somebody else wrote: what goes wrong in it is logged, and `soonest` chooses."""

    def __init__(self, name: str, choose: Policy) -> None:
        self._name = name
        self._choose = choose

    def __call__(self, offers: list[Offer], ask: Ask) -> Offer | None:
        try:
            chosen = self._choose(list(offers), ask)
        except Exception:  # noqa: BLE001 (code of somebody else's: anything may go wrong in it)
            _log.exception("the policy %s failed; the soonest is hired", self._name)
            return soonest(offers, ask)
        if chosen is None or any(chosen is offer for offer in offers):
            return chosen
        _log.error(
            "the policy %s chose %r, which is none of the offers; the soonest is hired", self._name, chosen
        )
        return soonest(offers, ask)


def rules(settings: HireSettings) -> Rules:
    return Rules(
        find_policy(settings.policy),
        window_us=round(settings.window_s * SECOND_US),
        travel_us=round(settings.travel_s * SECOND_US),
        buffer_us=round(settings.buffer_s * SECOND_US),
        answer_us=round(settings.answer_s * SECOND_US),
        ahead_us=round(settings.ahead_s * SECOND_US),
        perform_us=round(settings.perform_s * SECOND_US),
        pause_us=round(settings.pause_s * SECOND_US),
        pause_max_us=round(settings.pause_max_s * SECOND_US),
        promise_max_us=round(settings.promise_max_s * SECOND_US),
    )


def options(settings: HireSettings, name: str) -> HireOptions:
    """The door's options, in a hall of this name."""
    identity = uuid.UUID(settings.id) if settings.id else uuid.uuid5(_HALLS, name)
    types = frozenset(queue.encode() for queue in settings.types) if settings.types else None
    posting_us = round(settings.posting_s * SECOND_US)
    log_all = settings.log == "all"
    if isinstance(settings, HireDoorSettings):
        return HireOptions(
            id=identity.bytes,
            compact=settings.compact,
            direct=settings.direct,
            queues=types,
            posting_us=posting_us,
            log_all=log_all,
        )
    return HireOptions(
        id=identity.bytes,
        bus=True,
        compact=settings.compact,
        queues=types,
        posting_us=posting_us,
        log_all=log_all,
        speakers_max=settings.peers_max,
        idle_us=round(settings.idle_s * SECOND_US),
    )


def _line_endpoints(scheduler: Scheduler, settings: HireDoorSettings, process: Process) -> list[Endpoint]:
    context = HireContext(scheduler, options(settings, process.name), rules(settings))
    return [Endpoint(settings.address, lambda caller: LineSession(caller, context))]


def _bus_endpoints(scheduler: Scheduler, settings: HireBusDoorSettings, process: Process) -> list[Endpoint]:
    context = HireContext(scheduler, options(settings, process.name), rules(settings))
    return [
        Endpoint(
            settings.address,
            lambda caller: BusSession(caller, context),
            role="publish",
            outward=settings.subscribe,
        )
    ]


HIRE: Final = Dialect(HireDoorSettings, _line_endpoints)
HIRE_BUS: Final = Dialect(HireBusDoorSettings, _bus_endpoints)
