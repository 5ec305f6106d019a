"""Changes of many jobs at once, with a count to confirm.

Invariant: nothing is changed unless the number of jobs that match is the one that the person was shown. The
hall is asked for at most `UNDER_WAY_MAX` changes at a time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from hiringhall.dialects.native import wire
from hiringhall.sdk.errors import HallRefused
from hiringhall.web import filters, history, job_shapes, jobs
from hiringhall.web.bodies import BULK_MAX, BulkCancel, BulkRetry, DeadChoice, LiveChoice
from hiringhall.web.problems import Problem
from hiringhall.web.values import job_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hiringhall.web.bodies import QueueRetry
    from hiringhall.web.calls import Call

UNDER_WAY_MAX: Final = 100
FAILED_SHOWN: Final = 100


async def cancel(call: Call) -> job_shapes.Changed:
    body: BulkCancel = call.body
    chosen = LiveChoice() if body.filter is UNSET else body.filter
    ids = await _chosen(call, body, _live_ids(call, chosen))
    reason = body.reason.encode(errors="surrogatepass")
    failed, failed_count = await _change_all(call, wire.CANCEL, [(number, reason) for number in ids])
    return job_shapes.Changed(changed=len(ids) - failed_count, failed=failed, failed_count=failed_count)


async def retry(call: Call) -> job_shapes.Changed:
    body: BulkRetry = call.body
    chosen = DeadChoice() if body.filter is UNSET else body.filter
    ids = await _chosen(call, body, _dead_ids(call, chosen))
    failed, failed_count = await _change_all(call, wire.RETRY, [(number,) for number in ids])
    return job_shapes.Changed(changed=len(ids) - failed_count, failed=failed, failed_count=failed_count)


async def retry_queue(call: Call) -> job_shapes.Retried:
    """All dead letters of a queue."""
    body: QueueRetry = call.body
    chosen = DeadChoice(queue=call.path["name"].decode(errors="surrogateescape"))
    expected = None if body.expected is UNSET else int(body.expected)
    ids = await _collected(_dead_ids(call, chosen), expected)
    failed, failed_count = await _change_all(call, wire.RETRY, [(number,) for number in ids])
    return job_shapes.Retried(retried=len(ids) - failed_count, failed=failed, failed_count=failed_count)


async def _chosen(call: Call, body: BulkCancel | BulkRetry, matching: AsyncIterator[int]) -> list[int]:
    """The jobs that are meant. Raises Problem if they are not as many as expected."""
    del call
    if body.ids is UNSET:
        if body.filter is UNSET:
            raise Problem("bad_request", "give filter or ids")
        return await _collected(matching, int(body.expected))
    if body.filter is not UNSET:
        raise Problem("bad_request", "give one of filter and ids")
    ids = list(dict.fromkeys(job_id("ids", written) for written in body.ids))
    _check_count(len(ids), int(body.expected))
    return ids


async def _collected(matching: AsyncIterator[int], expected: int | None) -> list[int]:
    ids: list[int] = []
    async for number in matching:
        ids.append(number)
        if len(ids) > BULK_MAX:
            raise Problem("too_large", f"more than {BULK_MAX} jobs match: choose fewer")
    if expected is not None:
        _check_count(len(ids), expected)
    return ids


def _check_count(found: int, expected: int) -> None:
    if found != expected:
        raise Problem(
            "expected_differs",
            f"{found} jobs match now, and not {expected}: nothing was changed; look again and confirm",
        )


async def _live_ids(call: Call, chosen: LiveChoice) -> AsyncIterator[int]:
    if filters.may_match(chosen):
        async for line in jobs.every(call.hall, filters.live(chosen)):
            yield line["id"]


async def _dead_ids(call: Call, chosen: DeadChoice) -> AsyncIterator[int]:
    if filters.may_match(chosen):
        async for line in history.every(call, {**filters.ended(chosen), "state": "failed"}):
            yield line["id"]


async def _change_all(
    call: Call, kind: str, bodies: list[tuple[Any, ...]]
) -> tuple[list[job_shapes.Unchanged], int]:
    """Ask for all changes, some at a time. Those that were refused: the first of them, and how many."""
    refused: list[job_shapes.Unchanged] = []
    refused_count = 0
    waiting = iter(bodies)

    async def work() -> None:
        nonlocal refused_count
        for body in waiting:
            try:
                await call.hall.change(kind, body)
            except HallRefused as error:
                refused_count += 1
                if len(refused) < FAILED_SHOWN:
                    refused.append(job_shapes.Unchanged(id=str(body[0]), code=error.code, detail=error.text))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(UNDER_WAY_MAX, len(bodies))):
            group.create_task(work())
    return refused, refused_count
