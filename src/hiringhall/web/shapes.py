"""What the API answers: every shape of a JSON document.

Names, keys and the like are bytes to the hall. `NAME_base64` is there only if the bytes of `NAME` are not
UTF-8, and then `NAME` has replacement characters.
"""

from datetime import datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct

from hiringhall.web.values import ID_PATTERN, Encoded

Id = Annotated[str, Meta(pattern=ID_PATTERN, description="The id of a job: digits.")]


class Answer(Struct, frozen=True, kw_only=True):
    """A document of the API."""


class ActorShape(Answer, frozen=True, kw_only=True):
    """Who asks."""

    name: str
    role: str


class StoreState(Answer, frozen=True, kw_only=True):
    """Whether the hall can write durable jobs."""

    ok: bool
    trouble: str
    """Empty: none."""


class HallShape(Answer, frozen=True, kw_only=True):
    """The hall, and who asks."""

    name: str
    version: str
    started: datetime | None
    now: datetime
    data: bool
    """Whether the web reads the history from the hall's data folder."""
    store: StoreState
    actor: ActorShape
    features: list[str]


class QueueLine(Answer, frozen=True, kw_only=True):
    """A queue in a summary."""

    name: str
    name_base64: Encoded = UNSET
    ready: int
    running: int
    waiting: int
    failed: int
    paused: bool
    done_total: int
    failed_total: int


class JobCounts(Struct, frozen=True):
    ready: int
    running: int
    waiting: int
    failed: int


class Rates(Struct, frozen=True):
    """Ends a second, over the last minute."""

    done_s: float
    failed_s: float


class Attention(Struct, frozen=True):
    """Something that a person should look at."""

    kind: str
    text: str
    link: str
    """A page of the dashboard."""


class Summary(Answer, frozen=True, kw_only=True):
    """The hall at a glance: the most active queues, and counts of all of them."""

    at: datetime
    oldest_s: float
    """How long the oldest ready job has waited, as far as known; 0: none is ready."""
    queues: list[QueueLine]
    workers: int
    busy: int
    jobs: JobCounts
    rates: Rates
    attention: list[Attention]


class Queue(Answer, frozen=True, kw_only=True):
    """A queue."""

    name: str
    name_base64: Encoded = UNSET
    ready: int
    parked: int
    """Ready jobs whose limit_key has as many running as it may."""
    running: int
    held: int
    delayed: int
    failed: int
    """Dead letters in the memory of the hall."""
    workers: int
    paused: bool
    oldest: datetime | None
    """Since when the oldest ready job is ready."""
    oldest_s: float
    average_run_s: float
    done_total: int
    failed_total: int
    cancelled_total: int
    done_s: float
    """Jobs done a second, over the last minute in which somebody looked."""
    rules: dict[str, Any]
    """Its limits, by the names of the settings; times in seconds."""
    rules_set: bool
    """They were set at run time, and win over the settings until they are cleared."""


class QueueRules(Answer, frozen=True, kw_only=True):
    """The rules of a queue."""

    rules: dict[str, Any]
    """By the names of the settings; times in seconds. What is not limited is left out."""
    set: bool
    """They were set at run time, and win over the settings until they are cleared."""


class QueueList(Answer, frozen=True, kw_only=True):
    items: list[Queue]
    next: str | None
