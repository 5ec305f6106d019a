"""Options of a job, in people's units, and the terms that the hall is told.

Invariant: a wrong option is refused where it is written, not later by the hall.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping  # noqa: TC003 (in annotations that are read at run time)
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, Self, TypeAlias, TypedDict

import msgspec

from hiringhall.sdk.hooks import Handle
from hiringhall.sdk.resources import text_of

Seconds: TypeAlias = float | dt.timedelta
"""A time in seconds."""
Priority: TypeAlias = Literal["high", "normal", "low"]
OnParentFailure: TypeAlias = Literal["fail", "run", "hold"]

SECONDS_MAX: Final = 100 * 365 * 86_400
COUNT_MAX: Final = 1_000_000
FLOW_BYTES_MAX: Final = 200
_TIMES: Final = (
    "backoff",
    "backoff_max",
    "timeout",
    "delay",
    "expires",
    "takes",
    "keep",
    "silence",
    "debounce",
    "debounce_max",
    "throttle",
)
FLOWS_CACHED: Final = 100
"""Flows whose terms are kept encoded with the options."""


class CallOptions(TypedDict, total=False):
    """What a call may choose: `thumbnail.options(priority="high").submit(...)`. See `Options`."""

    retries: int
    backoff: Seconds
    backoff_max: Seconds
    timeout: Seconds
    priority: Priority
    delay: Seconds
    at: dt.datetime
    key: str
    expires: Seconds
    skill: int
    takes: Seconds
    keep: Seconds
    durable: bool
    silence: Seconds
    losses_max: int
    on_parent_failure: OnParentFailure
    after: Iterable[Handle | int]
    flow: str
    limit_key: str
    tenant: str
    debounce: Seconds
    debounce_max: Seconds
    throttle: Seconds
    resources: Mapping[str, float | str]


class JobOptions(CallOptions, total=False):
    """What `@hall.job` takes: options of a call as defaults, and what belongs to the function."""

    name: str
    """The queue; `module.function` unless set."""
    codec: Literal["json", "msgpack"]
    retry_on: type[BaseException] | tuple[type[BaseException], ...]
    """Only after these exceptions a job is retried; others fail it at once."""


@dataclass(frozen=True)
class Options:
    """All of them, with their defaults. None: the hall's default."""

    retries: int | None = None
    """Failed attempts that are followed by another; 0 unless set."""
    backoff: Seconds | None = None
    """The wait before the first retry, which doubles with each; 1 s unless set."""
    backoff_max: Seconds | None = None
    """The longest of these waits; 1 h unless set."""
    timeout: Seconds | None = None
    """An attempt that takes longer is stopped and fails; no limit unless set."""
    priority: Priority | None = None
    delay: Seconds | None = None
    """Not before this much time has passed."""
    at: dt.datetime | None = None
    """Not before this moment; without a time zone it is local time."""
    key: str | None = None
    """A live job of the same function with this key is joined."""
    expires: Seconds | None = None
    """Cancelled if no worker takes it within this time."""
    skill: int | None = None
    takes: Seconds | None = None
    """How long it is expected to run: a worker that leaves earlier does not get it."""
    keep: Seconds | None = None
    """How long after its end the history has it, unless it failed; as the hall's rules say unless set."""
    durable: bool = True
    """On disk before `submit` returns."""
    silence: Seconds | None = None
    """Lost when its worker shows no sign of life for this long."""
    losses_max: int | None = None
    """Lost workers after which it fails; 3 unless set, 0: no limit."""
    on_parent_failure: OnParentFailure | None = None
    after: tuple[int, ...] = ()
    """Ids of the jobs that must end first."""
    flow: str | None = None
    """The flow that the job belongs to; None: that of `with hall.flow(name):`, or none."""
    limit_key: str | None = None
    """Jobs of the queue with the same one count together where the hall limits how many run at a time."""
    tenant: str | None = None
    """For whom the job is: in a queue that the hall shares fairly, tenants take turns."""
    debounce: Seconds | None = None
    """It starts after this time without a further submit of its key; the latest submit wins."""
    debounce_max: Seconds | None = None
    """With debounce: it waits no longer than this in total."""
    throttle: Seconds | None = None
    """Submits of its key within this time after the first are that first job; the first submit wins."""
    resources: Mapping[str, float | str] | None = None
    """What it needs of the resources of its worker while it runs, such as `{"cpus": 2, "mem": "8G"}`."""

    def __post_init__(self) -> None:
        for name in ("retries", "skill", "losses_max"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and not (whole and 0 <= value <= COUNT_MAX):
                raise ValueError(f"{name} must be a whole number from 0 to {COUNT_MAX}, not {value!r}")
        for name in _TIMES:
            if getattr(self, name) is not None:
                microseconds(name, getattr(self, name))
        if self.keep is not None and not microseconds("keep", self.keep):
            raise ValueError("keep must be longer than 0 seconds; without it, the rules of the hall decide")
        if self.delay is not None and self.at is not None:
            raise ValueError("give delay or at, not both")
        if self.at is not None and not isinstance(self.at, dt.datetime):
            raise ValueError(f"at must be a datetime, not {self.at!r}")
        for name in ("key", "limit_key", "tenant"):
            key: object = getattr(self, name)
            if key is not None and not (isinstance(key, str) and key):
                raise ValueError(f"{name} must be a text that is not empty, not {key!r}")
        if self.resources is not None:
            text_of(self.resources)
        flow: object = self.flow
        if flow is not None and not (isinstance(flow, str) and 0 < len(flow.encode()) <= FLOW_BYTES_MAX):
            raise ValueError(f"flow must be a text of 1 to {FLOW_BYTES_MAX} bytes in UTF-8, not {flow!r}")
        _one_of("priority", self.priority, ("high", "normal", "low"))
        _one_of("on_parent_failure", self.on_parent_failure, ("fail", "run", "hold"))

    def change(self, changes: dict[str, Any]) -> Self:
        """A copy with other options; one of delay and at replaces the other. Raises TypeError."""
        changes = dict(changes)
        for name in changes:
            if name in JobOptions.__annotations__ and name not in CallOptions.__annotations__:
                raise TypeError(f"{name!r} belongs to the function: give it to @hall.job")
            if name not in self.__dataclass_fields__:
                raise TypeError(f"{name!r} is not an option of a call")
        if changes.get("delay") is not None:
            changes = {"at": None, **changes}
        elif changes.get("at") is not None:
            changes = {"delay": None, **changes}
        if "after" in changes:
            jobs = changes["after"] or ()
            changes["after"] = tuple(job.id if isinstance(job, Handle) else int(job) for job in jobs)
        return replace(self, **changes)

    def terms_in(self, flow: str) -> msgspec.Raw:
        """The terms on the wire of a job that belongs to this flow, encoded."""
        encoded = self._in_flows.get(flow)
        if encoded is None:
            if not self.durable:
                raise ValueError("a job that is not durable cannot belong to a flow")
            if len(self._in_flows) >= FLOWS_CACHED:
                self._in_flows.clear()
            terms = {**msgspec.msgpack.decode(self.terms), "flow": flow.encode()}
            encoded = self._in_flows[flow] = msgspec.Raw(msgspec.msgpack.encode(terms))
        return encoded

    @cached_property
    def _in_flows(self) -> dict[str, msgspec.Raw]:
        return {}

    @cached_property
    def terms(self) -> msgspec.Raw:
        """The terms on the wire, encoded, without a flow."""
        stated: dict[str, int | str | bool | None] = {
            "retries": self.retries,
            "backoff_us": _us("backoff", self.backoff),
            "backoff_max_us": _us("backoff_max", self.backoff_max),
            "timeout_us": _us("timeout", self.timeout),
            "priority": self.priority,
            "expire_us": _us("expires", self.expires),
            "skill": self.skill,
            "takes_us": _us("takes", self.takes),
            "keep_us": _us("keep", self.keep),
            "durable": None if self.durable else False,
            "silence_us": _us("silence", self.silence),
            "losses_max": self.losses_max,
            "on_parent_failure": self.on_parent_failure,
            "limit_key": self.limit_key,
            "tenant": self.tenant,
            "debounce_us": _us("debounce", self.debounce),
            "debounce_max_us": _us("debounce_max", self.debounce_max),
            "throttle_us": _us("throttle", self.throttle),
            "resources": text_of(self.resources) if self.resources else None,
        }
        terms = {name: value for name, value in stated.items() if value is not None}
        return msgspec.Raw(msgspec.msgpack.encode(terms))

    @cached_property
    def is_delayed(self) -> bool:
        """It does not run at once."""
        return self.delay is not None or self.at is not None

    def delay_us(self, clock: Callable[[], float]) -> int:
        """How long from now the job waits."""
        if self.at is not None:
            return max(round((self.at.timestamp() - clock()) * 1e6), 0)
        return microseconds("delay", self.delay) if self.delay is not None else 0


def microseconds(name: str, time: Seconds) -> int:
    """Whole microseconds. Raises ValueError."""
    seconds = time.total_seconds() if isinstance(time, dt.timedelta) else time
    number: object = seconds
    usable = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
    if not usable or not 0 <= seconds <= SECONDS_MAX:
        wanted = f"a time in seconds from 0 to {SECONDS_MAX}, or a timedelta"
        raise ValueError(f"{name} must be {wanted}, not {time!r}")
    return round(seconds * 1_000_000)


def in_seconds(name: str, time: Seconds) -> float:
    """Seconds. Raises ValueError."""
    return microseconds(name, time) / 1e6


def _us(name: str, time: Seconds | None) -> int | None:
    return None if time is None else microseconds(name, time)


def _one_of(name: str, value: str | None, words: tuple[str, ...]) -> None:
    if value is not None and value not in words:
        raise ValueError(f"{name} must be one of {', '.join(words)}, not {value!r}")
