"""What the API is asked: the parameters of queries."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from hiringhall.web.values import ID_PATTERN

Limit = Annotated[int, Meta(ge=1, le=1000, description="How many items a page has at most.")]
Cursor = Annotated[str, Meta(pattern="^([0-9]{1,19})?$", description="`next` of the page before.")]
Format = Annotated[
    Literal["json", "csv"], Meta(description="Download the whole list as a file of this kind, without pages.")
]
Name = Annotated[str, Meta(min_length=1, max_length=4096)]
Text = Annotated[str, Meta(min_length=1, max_length=1000)]
Moment = Annotated[datetime, Meta(tz=True)]
JobNumber = Annotated[str, Meta(pattern=ID_PATTERN, description="The id of a job.")]
LiveState = Literal["held", "delayed", "queued", "running"]
EndedState = Literal["done", "failed", "cancelled"]
LiveSituation = Literal[
    "held",
    "delayed",
    "backoff",
    "paused",
    "parked",
    "limited",
    "promised",
    "announced",
    "no_workers",
    "ready",
    "running",
]
FlowState = Literal["running", "done", "failed", "cancelled", "stuck"]
Span = Literal["1h", "6h", "1d", "7d", "30d"]


class Question(Struct, frozen=True, kw_only=True):
    """The parameters of a request. Those that are not here are refused."""


class Page(Question, frozen=True, kw_only=True):
    """The parameters of a list."""

    limit: Limit = 100
    cursor: Cursor = ""
    format: Format | UnsetType = UNSET


class QueuesQuestion(Page, frozen=True, kw_only=True):
    text: Annotated[Text | UnsetType, Meta(description="Only queues whose name contains this.")] = UNSET


class LiveFilter(Question, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """Which live jobs are meant."""

    state: LiveState | UnsetType = UNSET
    situation: LiveSituation | UnsetType = UNSET
    queue: Name | UnsetType = UNSET
    key: Name | UnsetType = UNSET
    text: Annotated[
        Text | UnsetType, Meta(description="Found in the key, or in the first 4 KiB of the payload.")
    ] = UNSET
    since: Annotated[Moment | UnsetType, Meta(description="Created at this time or later.")] = UNSET
    until: Annotated[Moment | UnsetType, Meta(description="Created at this time or earlier.")] = UNSET
    worker: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] | UnsetType = UNSET


Patience = Annotated[
    float, Meta(ge=0, le=30, description="How many seconds counting may take, to be complete.")
]


class JobsCount(LiveFilter, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """How many live jobs."""

    wait: Patience = 0.0


class JobsQuestion(LiveFilter, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """A list of live jobs."""

    limit: Limit = 100
    cursor: Cursor = ""
    format: Format | UnsetType = UNSET


class HistoryFilter(Question, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """Which ended jobs are meant."""

    state: EndedState | UnsetType = UNSET
    queue: Name | UnsetType = UNSET
    key: Name | UnsetType = UNSET
    text: Annotated[
        Text | UnsetType, Meta(description="Found in key, worker, payload or result, as far as they are kept.")
    ] = UNSET
    since: Annotated[Moment | UnsetType, Meta(description="Ended at this time or later.")] = UNSET
    until: Annotated[Moment | UnsetType, Meta(description="Ended at this time or earlier.")] = UNSET


class HistoryCount(HistoryFilter, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """How many ended jobs."""

    wait: Patience = 0.0


class HistoryQuestion(HistoryFilter, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """A list of ended jobs."""

    limit: Limit = 100
    cursor: Cursor = ""
    format: Format | UnsetType = UNSET


class ChartQuestion(Question, frozen=True, kw_only=True):
    span: Span = "1h"
    queue: Name | UnsetType = UNSET


class WaitQuestion(Question, frozen=True, kw_only=True):
    wait: Annotated[
        float, Meta(ge=0, le=60, description="How many seconds to wait for the end of the job.")
    ] = 0.0


class OutputQuestion(Question, frozen=True, kw_only=True):
    position: Annotated[
        str, Meta(pattern="^[0-9]{1,19}$", description="`next` of the answer before, 0 at first.")
    ] = "0"


class WorkersQuestion(Page, frozen=True, kw_only=True):
    queue: Annotated[Name | UnsetType, Meta(description="Only workers that can do this queue.")] = UNSET
    dialect: Annotated[Text | UnsetType, Meta(description="Only workers that speak this dialect.")] = UNSET
    text: Annotated[Text | UnsetType, Meta(description="Found in the name or the address.")] = UNSET


class FlowsQuestion(Page, frozen=True, kw_only=True):
    text: Annotated[Text | UnsetType, Meta(description="Only flows whose name contains this.")] = UNSET
    state: FlowState | UnsetType = UNSET


class GraphQuestion(Question, frozen=True, kw_only=True):
    job: JobNumber


class AuditQuestion(Question, frozen=True, kw_only=True):
    limit: Limit = 100
