"""What the API is told: the bodies of requests. A field that is not here is refused."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from hiringhall.web.questions import LiveSituation, LiveState
from hiringhall.web.values import BASE64_PATTERN, ID_PATTERN

Id = Annotated[str, Meta(pattern=ID_PATTERN)]
Name = Annotated[str, Meta(max_length=4096)]
Base64 = Annotated[str, Meta(pattern=BASE64_PATTERN)]
Moment = Annotated[datetime, Meta(tz=True)]
Seconds = Annotated[float, Meta(ge=0, le=3_153_600_000)]
"""Up to a hundred years."""
Number = Annotated[int, Meta(ge=0, le=1_000_000)]
Expected = Annotated[float, Meta(ge=0, le=10_000_000, multiple_of=1)]
"""A whole number. JSON has one kind of number, so 3.0 is 3."""
Running = Annotated[float, Meta(ge=1, le=1_000_000_000, multiple_of=1)]
Weight = Annotated[float, Meta(ge=1, le=1000, multiple_of=1)]
BULK_MAX = 100_000


class Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The JSON object of a request."""


class NewJob(Body, frozen=True, kw_only=True):
    """A job to submit. The payload is one of `payload`, `payload_base64` and `json`."""

    queue: Name | UnsetType = UNSET
    queue_base64: Base64 | UnsetType = UNSET
    payload: str | UnsetType = UNSET
    payload_base64: Base64 | UnsetType = UNSET
    json: Any = UNSET
    key: Name | UnsetType = UNSET
    key_base64: Base64 | UnsetType = UNSET
    priority: Literal["high", "normal", "low"] | UnsetType = UNSET
    delay_s: Seconds | UnsetType = UNSET
    at: Moment | UnsetType = UNSET
    retries: Number | UnsetType = UNSET
    backoff_s: Seconds | UnsetType = UNSET
    timeout_s: Seconds | UnsetType = UNSET
    expire_s: Seconds | UnsetType = UNSET
    skill: Number | UnsetType = UNSET
    takes_s: Seconds | UnsetType = UNSET
    keep_s: Seconds | UnsetType = UNSET
    parents: Annotated[list[Id], Meta(max_length=10_000)] | UnsetType = UNSET
    durable: bool | UnsetType = UNSET
    flow: Name | UnsetType = UNSET
    flow_base64: Base64 | UnsetType = UNSET
    limit_key: Name | UnsetType = UNSET
    limit_key_base64: Base64 | UnsetType = UNSET
    tenant: Name | UnsetType = UNSET
    tenant_base64: Base64 | UnsetType = UNSET
    debounce_s: Seconds | UnsetType = UNSET
    debounce_max_s: Seconds | UnsetType = UNSET
    throttle_s: Seconds | UnsetType = UNSET
    resources: Annotated[dict[str, float | str], Meta(max_length=16)] | UnsetType = UNSET


class Submission(NewJob, frozen=True, kw_only=True):
    """A job to submit; or many, in `jobs`: then all of them are submitted, or none."""

    jobs: Annotated[list[NewJob], Meta(min_length=1, max_length=10_000)] | UnsetType = UNSET


class Reason(Body, frozen=True, kw_only=True):
    """Why a job is cancelled."""

    reason: Annotated[str, Meta(max_length=4096)] = ""


class LiveChoice(Body, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """Live jobs by filters."""

    state: LiveState | UnsetType = UNSET
    situation: LiveSituation | UnsetType = UNSET
    queue: Name | UnsetType = UNSET
    queue_base64: Base64 | UnsetType = UNSET
    key: Name | UnsetType = UNSET
    key_base64: Base64 | UnsetType = UNSET
    text: Name | UnsetType = UNSET
    text_base64: Base64 | UnsetType = UNSET
    since: Moment | UnsetType = UNSET
    until: Moment | UnsetType = UNSET
    worker: Annotated[float, Meta(ge=0, le=1e15, multiple_of=1)] | UnsetType = UNSET


class DeadChoice(Body, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """Dead letters by filters."""

    state: Literal["failed"] | UnsetType = UNSET
    queue: Name | UnsetType = UNSET
    queue_base64: Base64 | UnsetType = UNSET
    key: Name | UnsetType = UNSET
    key_base64: Base64 | UnsetType = UNSET
    text: Name | UnsetType = UNSET
    text_base64: Base64 | UnsetType = UNSET
    since: Moment | UnsetType = UNSET
    until: Moment | UnsetType = UNSET


class BulkCancel(Body, frozen=True, kw_only=True):
    """Jobs to cancel: those of `ids`, or those that match `filter`; and how many that should be."""

    expected: Expected
    filter: LiveChoice | UnsetType = UNSET
    ids: Annotated[list[Id], Meta(max_length=BULK_MAX)] | UnsetType = UNSET
    reason: Annotated[str, Meta(max_length=4096)] = ""


class BulkRetry(Body, frozen=True, kw_only=True):
    """Dead letters to retry: those of `ids`, or those that match `filter`; and how many that should be."""

    expected: Expected
    filter: DeadChoice | UnsetType = UNSET
    ids: Annotated[list[Id], Meta(max_length=BULK_MAX)] | UnsetType = UNSET


class QueueRetry(Body, frozen=True, kw_only=True):
    """How many dead letters the queue should have; left out: however many it has."""

    expected: Expected | UnsetType = UNSET


class NewRules(Body, frozen=True, kw_only=True):
    """The rules of a queue, in place of all that it has. What is left out is not limited."""

    running_max: Running | UnsetType = UNSET
    key_running_max: Running | UnsetType = UNSET
    starts_per_second: Annotated[float, Meta(ge=0.001, le=1_000_000)] | UnsetType = UNSET
    burst: Running | UnsetType = UNSET
    fair: bool = False
    tenant_weights: dict[str, Weight] | UnsetType = UNSET
    age_max_s: Seconds | UnsetType = UNSET


class NewSchedule(Body, frozen=True, kw_only=True):
    """A schedule to add. One of `cron` and `every_s` is required."""

    name: Annotated[str, Meta(min_length=1, max_length=1000)]
    queue: Annotated[str, Meta(min_length=1, max_length=4096)]
    payload: str = ""
    key: Name = ""
    cron: Annotated[str, Meta(max_length=1000)] | UnsetType = UNSET
    every_s: Annotated[float, Meta(ge=1, le=3_153_600_000)] | UnsetType = UNSET
    timezone: Annotated[str, Meta(max_length=100)] | UnsetType = UNSET
    priority: Literal["high", "normal", "low"] | UnsetType = UNSET
    retries: Number | UnsetType = UNSET
    backoff_s: Seconds | UnsetType = UNSET
    timeout_s: Seconds | UnsetType = UNSET
    expire_s: Seconds | UnsetType = UNSET
    limit_key: Name = ""
    tenant: Name = ""
    resources: Annotated[dict[str, float | str], Meta(max_length=16)] | UnsetType = UNSET
    missed: Literal["latest", "all", "skip"] | UnsetType = UNSET
    late_s: Seconds | UnsetType = UNSET
    replace: bool = False


def _not_both(*names: str) -> dict[str, Any]:
    return {"not": {"required": list(names)}}


def _one_of(*names: str) -> dict[str, Any]:
    return {"oneOf": [{"required": [name]} for name in names]}


_CHOICE: dict[str, Any] = {"allOf": [_not_both(name, f"{name}_base64") for name in ("queue", "key", "text")]}
RULES: dict[str, dict[str, Any]] = {
    "NewJob": {
        "allOf": [
            _one_of("queue", "queue_base64"),
            _not_both("payload", "payload_base64"),
            _not_both("payload", "json"),
            _not_both("payload_base64", "json"),
            _not_both("key", "key_base64"),
            _not_both("flow", "flow_base64"),
            _not_both("delay_s", "at"),
        ]
    },
    "NewRules": {
        "allOf": [
            {"anyOf": [{"not": {"required": ["burst"]}}, {"required": ["starts_per_second"]}]},
            {
                "anyOf": [
                    {"not": {"required": ["tenant_weights"]}},
                    {"required": ["fair"], "properties": {"fair": {"const": True}}},
                ]
            },
        ]
    },
    "LiveChoice": _CHOICE,
    "DeadChoice": _CHOICE,
    "NewSchedule": _one_of("cron", "every_s"),
    "BulkCancel": _one_of("filter", "ids"),
    "BulkRetry": _one_of("filter", "ids"),
}
"""Rules between fields, as JSON Schema. The handlers check them."""
