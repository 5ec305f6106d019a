"""Workers, doors, flows, schedules, auctions, settings and the audit log as the API answers them."""

from datetime import datetime
from typing import Any

from msgspec import UNSET

from hiringhall.web.shapes import Answer, Id
from hiringhall.web.values import Encoded


class Resource(Answer, frozen=True, kw_only=True):
    """How much of a resource of a worker is used by jobs that need it."""

    used: float
    total: float


class Worker(Answer, frozen=True, kw_only=True):
    """A connected worker, or one that is known by name."""

    number: str
    name: str
    name_base64: Encoded = UNSET
    dialect: str
    door: str
    address: str
    queues: list[str]
    skills: dict[str, int]
    slots: int
    jobs: list[Id]
    state: str
    """working, hired, waiting (told when there is a job) or idle (has not asked for one)."""
    draining: bool
    since: datetime | None
    heard: datetime | None
    until: datetime | None
    """When it leaves, as far as it said; null: it stays."""
    resident: bool
    resources: dict[str, Resource]
    """What it has for jobs that need some of it."""


class WorkerList(Answer, frozen=True, kw_only=True):
    items: list[Worker]
    next: str | None


class Door(Answer, frozen=True, kw_only=True):
    """An address at which the hall listens."""

    dialect: str
    role: str
    address: str
    connections: int


class DoorList(Answer, frozen=True, kw_only=True):
    items: list[Door]
    next: str | None = None


class Schedule(Answer, frozen=True, kw_only=True):
    """A schedule: a job that is submitted at fixed times."""

    name: str
    queue: str
    payload: str
    key: str
    cron: str | None
    every_s: float | None
    timezone: str
    next: datetime | None
    last: datetime | None
    paused: bool
    source: str
    """settings, or added."""
    missed: str
    late_s: float
    terms: dict[str, Any]
    last_id: Id | None
    """The job that it submitted last, if known."""


class ScheduleList(Answer, frozen=True, kw_only=True):
    items: list[Schedule]
    next: str | None


class Fired(Answer, frozen=True, kw_only=True):
    """The job that a schedule submitted."""

    id: Id


class Done(Answer, frozen=True, kw_only=True):
    """What was asked for is done."""

    ok: bool = True


class Bid(Answer, frozen=True, kw_only=True):
    worker: str
    skill: int
    arrives: datetime | None


class Auction(Answer, frozen=True, kw_only=True):
    """A job that is announced, and who bid for it."""

    job: Id
    queue: str
    queue_base64: Encoded = UNSET
    key: str
    key_base64: Encoded = UNSET
    open: bool
    closes: datetime | None
    skill: int
    needs_s: float
    bids: list[Bid]


class Hiring(Answer, frozen=True, kw_only=True):
    """Who was hired for a job."""

    at: datetime | None
    job: Id
    queue: str
    worker: str
    skill: int
    arrives: datetime | None
    bids: int
    policy: str


class AuctionList(Answer, frozen=True, kw_only=True):
    items: list[Auction]
    hirings: list[Hiring]
    next: str | None


class Setting(Answer, frozen=True, kw_only=True):
    name: str
    value: str
    source: str
    description: str


class SettingList(Answer, frozen=True, kw_only=True):
    items: list[Setting]
    next: str | None = None


class AuditLine(Answer, frozen=True, kw_only=True, rename={"address": "from"}):
    """A change that somebody made."""

    at: str
    who: str
    role: str
    what: str
    outcome: str
    address: str
    job: str
    queue: str
    name: str
    """Of the schedule, the flow or the worker that was changed."""
    rules: str
    """What the rules of the queue are since then, if they were set."""
    person: str
    """Who used the token, if that was said."""
    through: str
    """The address of the program that this person used, if that is another one than `from`."""


class AuditList(Answer, frozen=True, kw_only=True):
    items: list[AuditLine]
    next: str | None = None


class Flow(Answer, frozen=True, kw_only=True):
    """Jobs that belong together."""

    name: str
    name_base64: Encoded = UNSET
    created: datetime | None
    ended: datetime | None
    state: str
    """running, done, failed, cancelled or stuck."""
    jobs: int
    held: int
    delayed: int
    ready: int
    running: int
    done: int
    failed: int
    cancelled: int


class FlowList(Answer, frozen=True, kw_only=True):
    items: list[Flow]
    next: str | None


class Node(Answer, frozen=True, kw_only=True):
    """A job in a graph."""

    id: Id
    name: str
    queue: str
    state: str
    situation: str


class Graph(Answer, frozen=True, kw_only=True):
    """Jobs and which waits for which."""

    nodes: list[Node]
    edges: list[tuple[int, int]]
    """Indexes in `nodes`: parent, child."""
    complete: bool
    """False: there are more jobs than are shown."""


class Bucket(Answer, frozen=True, kw_only=True):
    """What ended in a part of the time of a chart."""

    at: datetime
    done: int
    failed: int
    cancelled: int
    wait_s: float | None
    """The mean time from creation to the last start; null: none was started."""
    run_s: float | None
    """The mean time from the last start to the end."""


class Chart(Answer, frozen=True, kw_only=True, rename={"start": "from"}):
    """Ends over time."""

    bucket_s: int
    start: datetime
    items: list[Bucket]
    complete: bool
    """False: a long history is still being counted; ask again."""
