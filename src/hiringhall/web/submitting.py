"""Submitting jobs: one, or many at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from hiringhall.dialects.native import wire
from hiringhall.records.record import as_microseconds
from hiringhall.sdk.resources import text_of
from hiringhall.web import job_shapes
from hiringhall.web.bodies import Submission
from hiringhall.web.problems import Problem
from hiringhall.web.values import SECOND_US, data_of, job_id

if TYPE_CHECKING:
    from hiringhall.web.bodies import NewJob
    from hiringhall.web.calls import Call

DURATIONS: Final = {
    "backoff_s": "backoff_us",
    "timeout_s": "timeout_us",
    "expire_s": "expire_us",
    "takes_s": "takes_us",
    "keep_s": "keep_us",
    "debounce_s": "debounce_us",
    "debounce_max_s": "debounce_max_us",
    "throttle_s": "throttle_us",
}
PLAIN: Final = ("priority", "retries", "skill", "durable")


async def submit(call: Call) -> job_shapes.Submitted:
    """All jobs are submitted, or none. Nobody watches them: they are detached, durable or not."""
    body: Submission = call.body
    stated: list[NewJob] = [body] if body.jobs is UNSET else body.jobs
    if body.jobs is not UNSET and body != Submission(jobs=body.jobs):
        raise Problem("bad_request", "jobs: the fields of a job belong to the elements of jobs")
    durable = {job.durable for job in stated if job.durable is not UNSET} or {True}
    if len(durable) > 1 or (False in durable and any(job.durable is UNSET for job in stated)):
        raise Problem("mixed_jobs", "durable: the jobs of one request must all be durable, or all not")
    specs = [_spec(job, f"jobs[{place}]" if len(stated) > 1 else "") for place, job in enumerate(stated)]
    ids = await call.hall.change(wire.SUBMIT, (0, specs))
    return job_shapes.Submitted(ids=[str(number) for number in ids])


def _spec(job: NewJob, place: str) -> tuple[Any, ...]:
    """A job as the native protocol has it. Raises Problem."""
    at = f"{place}." if place else ""
    queue = data_of(f"{at}queue", job.queue, job.queue_base64)
    if not queue:
        raise Problem("bad_request", f"{at}queue is missing")
    key = data_of(f"{at}key", job.key, job.key_base64)
    parents = [] if job.parents is UNSET else [job_id(f"{at}parents", parent) for parent in job.parents]
    terms = terms_of(job)
    if flow := data_of(f"{at}flow", job.flow, job.flow_base64):
        terms["flow"] = flow
    if limit_key := data_of(f"{at}limit_key", job.limit_key, job.limit_key_base64):
        terms["limit_key"] = limit_key
    if tenant := data_of(f"{at}tenant", job.tenant, job.tenant_base64):
        terms["tenant"] = tenant
    if job.resources is not UNSET and (needs := needs_of(job.resources, at)):
        terms["resources"] = needs
    return queue, _payload(job, at), terms, key, _delay_us(job, at), parents


def needs_of(resources: dict[str, float | str], at: str = "") -> str:
    """The text of what a job needs; `at` is where the body states it. Raises Problem."""
    try:
        return text_of(resources)
    except ValueError as error:
        raise Problem("bad_request", f"{at}{error}") from None


def _payload(job: NewJob, at: str) -> bytes:
    if job.json is UNSET:
        return data_of(f"{at}payload", job.payload, job.payload_base64)
    if job.payload is not UNSET or job.payload_base64 is not UNSET:
        raise Problem("bad_request", f"{at}json: give one of payload, payload_base64 and json")
    return msgspec.json.encode(job.json)


def _delay_us(job: NewJob, at: str) -> int:
    if job.at is UNSET:
        return 0 if job.delay_s is UNSET else round(job.delay_s * SECOND_US)
    if job.delay_s is not UNSET:
        raise Problem("bad_request", f"{at}at: give one of at and delay_s")
    return max(0, as_microseconds(job.at) - round(time.time() * SECOND_US))


def terms_of(stated: Any) -> dict[str, Any]:
    """The terms that a body states."""
    terms: dict[str, Any] = {}
    for name in PLAIN:
        value = getattr(stated, name, UNSET)
        if value is not UNSET:
            terms[name] = value
    for name, native in DURATIONS.items():
        value = getattr(stated, name, UNSET)
        if value is not UNSET:
            terms[native] = round(value * SECOND_US)
    return terms
