"""The events of one job: its state, its progress and its output, as they change.

    event: state
    data: {"id": "68719476737", "state": "running", ...}

    id: 17
    event: output
    data: {"lines": [...], "next": "17"}

Invariant: the id of an event is the position in the job's output, so a browser that comes back goes on where it
was.

The job is asked for, not watched, for two reasons. A job that is not detached lives as long as it has a
watcher, and looking at a job must not keep it alive. And a watcher hears of progress, data and the end, but not
that a job starts, backs off, is lost or is paused, which the page shows too. Those who look at the same job
share the answers: it costs the hall about two small requests a second, however many look.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hiringhall.dialects.native import wire
from hiringhall.sdk.errors import HallError, HallRefused, HallUnreachable
from hiringhall.web import describing, job_shapes
from hiringhall.web.cursors import read_position
from hiringhall.web.events import HEARTBEAT, HEARTBEAT_S, RETRY_MS, EventStream, event, goes_on, rest
from hiringhall.web.jobs import LIVE
from hiringhall.web.values import job_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.responses import Response

    from hiringhall.web.calls import Call

STEP_S: Final = 0.5
"""How often the hall is asked; those who look at the same job share the answers."""
AWAY_S: Final = 2.0
_encode: Final = msgspec.json.Encoder().encode


async def events(call: Call) -> Response:
    number = job_id("id", call.path["id"].decode(errors="replace"))
    position = read_position(call.request.headers.get("last-event-id", ""))
    described = await call.hall.shared(wire.JOB, (number,))  # an unknown job is a problem, not a stream
    return EventStream(call.services, _events(call, number, position, described))


async def _events(call: Call, number: int, position: int, described: dict[str, Any]) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    heard_s = loop.time()
    sent: bytes = b""
    progress: Any = None
    yield f"retry: {RETRY_MS}\n\n".encode()
    while goes_on(call):
        try:
            async for part, following in _output(call, number, position):
                position = following
                heard_s = loop.time()
                yield part
        except HallUnreachable:
            await rest(call, AWAY_S)
            continue
        if described.get("progress") != progress:
            progress = described.get("progress")
            if progress is not None and progress[1]:
                yield event("progress", _encode({"numerator": progress[0], "denominator": progress[1]}))
        state = _encode(describing.job(described))
        if _without_progress(described) != sent:
            sent = _without_progress(described)
            heard_s = loop.time()
            yield event("state", state, str(position))
        if described["state"] not in LIVE:
            yield event("ended", state, str(position))
            return
        if loop.time() - heard_s > HEARTBEAT_S:
            heard_s = loop.time()
            yield HEARTBEAT
        await rest(call, STEP_S)
        try:
            described = await call.hall.shared(wire.JOB, (number,))
        except HallRefused as error:
            yield event("gone", _encode({"code": error.code, "detail": error.text}))
            return
        except HallError:
            await rest(call, AWAY_S)


async def _output(call: Call, number: int, position: int) -> AsyncIterator[tuple[bytes, int]]:
    """What was said after `position`, and the position after it."""
    while True:
        try:
            lines, following = await call.hall.shared(wire.OUTPUT, (number, position))
        except HallRefused:
            return  # nothing is kept of it
        if not lines:
            return
        shown = [describing.output_line(*line) for line in lines]
        answer = job_shapes.Output(lines=shown, next=str(following))
        position = following
        yield event("output", _encode(answer), str(position)), position


def _without_progress(described: dict[str, Any]) -> bytes:
    """What makes a state: everything but the progress, which has events of its own."""
    quiet = {name: value for name, value in described.items() if name not in ("progress", "expected_us")}
    return msgspec.msgpack.encode(quiet)
