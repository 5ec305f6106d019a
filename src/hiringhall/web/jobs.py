"""Jobs: the lists of live ones, one of them, its bytes and its output; cancel and retry."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.responses import Response

from hiringhall.dialects.native import wire
from hiringhall.sdk.failures import decode_failure
from hiringhall.web import describing, filters, job_shapes
from hiringhall.web.cursors import read_position
from hiringhall.web.problems import Problem
from hiringhall.web.route import BYTES, JSON
from hiringhall.web.values import job_id, shown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hiringhall.web.bodies import Reason
    from hiringhall.web.calls import Call
    from hiringhall.web.hall import HallClient
    from hiringhall.web.questions import JobsCount, JobsQuestion, OutputQuestion, WaitQuestion

PAGE_S: Final = 0.08
"""How long further pages are asked for, to fill one of the API."""
WAIT_STEP_S: Final = 0.25
LIVE: Final = ("held", "delayed", "queued", "leased")


async def jobs(call: Call) -> job_shapes.JobList:
    query: JobsQuestion = call.query
    wanted = filters.live(query)
    position: int | None = read_position(query.cursor) if filters.may_match(query) else None
    found: list[dict[str, Any]] = []
    until_s = asyncio.get_running_loop().time() + PAGE_S
    while position is not None:
        body = {**wanted, "after": position, "count": query.limit - len(found)}
        page, position = await call.hall.shared(wire.JOBS, body)
        found += page
        if len(found) >= query.limit or asyncio.get_running_loop().time() > until_s:
            break
    following = None if position is None else str(position)
    return job_shapes.JobList(items=[describing.job_line(line) for line in found], next=following)


async def count(call: Call) -> job_shapes.JobCount:
    query: JobsCount = call.query
    if not filters.may_match(query):
        return job_shapes.JobCount(count=0, complete=True)
    wanted = filters.live(query)
    until_s = asyncio.get_running_loop().time() + query.wait
    number, complete = await call.hall.shared(wire.COUNT, wanted)
    if complete or not query.wait:
        return job_shapes.JobCount(count=number, complete=complete)
    number = 0
    position: int | None = 0
    while position is not None and asyncio.get_running_loop().time() < until_s:
        page, position = await call.hall.ask(wire.JOBS, {**wanted, "after": position, "count": wire.LIST_MAX})
        number += len(page)
    return job_shapes.JobCount(count=number, complete=position is None)


async def every(hall: HallClient, wanted: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """All live jobs that match, page by page, oldest first."""
    position: int | None = 0
    while position is not None:
        page, position = await hall.ask(wire.JOBS, {**wanted, "after": position, "count": wire.LIST_MAX})
        for line in page:
            yield line


async def job(call: Call) -> job_shapes.Job:
    return describing.job(await _described(call))


async def _described(call: Call) -> dict[str, Any]:
    """The job as it is now: a program that asks for one job wants no answer of a second ago."""
    found: dict[str, Any] = await call.hall.ask(wire.JOB, (_id(call),))
    return found


def _id(call: Call) -> int:
    return job_id("id", call.path["id"].decode(errors="replace"))


async def cancel(call: Call) -> job_shapes.Job:
    stated: Reason = call.body
    await call.hall.change(wire.CANCEL, (_id(call), stated.reason.encode(errors="surrogatepass")))
    return await job(call)


async def retry(call: Call) -> job_shapes.Job:
    await call.hall.change(wire.RETRY, (_id(call),))
    return await job(call)


async def output(call: Call) -> job_shapes.Output:
    query: OutputQuestion = call.query
    await _described(call)  # the hall has no output of a job that it does not know, and does not say so
    body = _id(call), read_position(query.position)
    lines, following = await call.hall.shared(wire.OUTPUT, body)
    return job_shapes.Output(lines=[describing.output_line(*line) for line in lines], next=str(following))


async def payload(call: Call) -> Response:
    described = await _described(call)
    data: bytes = described["payload"]
    whole = described.get("payload_bytes", len(data))
    if len(data) < whole and call.services.history is not None:
        data = await call.services.history.payload(described["id"]) or data
    headers = {"x-payload-bytes": str(whole)}
    return attachment(data, f"job-{described['id']}-payload", headers)


async def result(call: Call) -> Response:
    """The result, as soon as the job has ended. The job is asked for again and again, not watched: a watcher
    would keep a job alive that its own client has given up.
    """
    query: WaitQuestion = call.query
    loop = asyncio.get_running_loop()
    until_s = loop.time() + query.wait
    described = await _described(call)
    while described["state"] in LIVE and loop.time() < until_s and not call.services.closing.is_set():
        await asyncio.sleep(min(WAIT_STEP_S, max(0.0, until_s - loop.time())))
        described = await _described(call)
    if described["state"] in LIVE:
        return Response(msgspec.json.encode(describing.job_line(described)), 202, media_type=JSON)
    return _ended(described)


def _ended(described: dict[str, Any]) -> Response:
    data: bytes = described["result"]
    number, state = described["id"], described["state"]
    if state == "done":
        if described.get("truncated"):
            raise Problem("not_kept", f"job {number} is done, but the hall has not kept its whole result")
        return attachment(data, f"job-{number}-result", {})
    failure = decode_failure(number, shown(described["queue"]), described["code"], data)
    raise Problem("job_failed" if state == "failed" else "job_cancelled", str(failure))


def attachment(data: bytes, name: str, headers: dict[str, str]) -> Response:
    """Bytes that no browser renders."""
    return Response(
        data, headers={**headers, "content-disposition": f'attachment; filename="{name}.bin"'}, media_type=BYTES
    )
