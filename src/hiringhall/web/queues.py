"""Queues: the list, one of them, pause and resume."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from hiringhall.dialects.native import wire
from hiringhall.web import filters, shapes
from hiringhall.web.cursors import read_place
from hiringhall.web.values import SECOND_US, moment, seconds, text

if TYPE_CHECKING:
    from hiringhall.web.calls import Call
    from hiringhall.web.questions import QueuesQuestion
    from hiringhall.web.services import Services


async def queues(call: Call) -> shapes.QueueList:
    query: QueuesQuestion = call.query
    position = read_place(query.cursor)
    body: tuple[Any, ...] = (position, query.limit)
    if query.text is not UNSET:
        body = (*body, filters.data(query.text))
    with call.services.summary.looking():
        found = await call.hall.ask(wire.QUEUES, body)
    items = [queue_of(call.services, described) for described in found]
    following = str(position + query.limit) if len(found) == query.limit else None
    return shapes.QueueList(items=items, next=following)


async def queue(call: Call) -> shapes.Queue:
    with call.services.summary.looking():
        return queue_of(call.services, await _find(call, call.path["name"]))


async def pause(call: Call) -> shapes.Queue:
    return await _change(call, wire.PAUSE)


async def resume(call: Call) -> shapes.Queue:
    return await _change(call, wire.RESUME)


async def _change(call: Call, kind: str) -> shapes.Queue:
    name = call.path["name"]
    await call.hall.change(kind, (name,))
    return queue_of(call.services, await _find(call, name))


async def _find(call: Call, name: bytes) -> dict[str, Any]:
    found: dict[str, Any] = await call.hall.ask(wire.QUEUE, (name,))
    return found


def queue_of(services: Services, described: dict[str, Any]) -> shapes.Queue:
    """From the map of the native protocol."""
    name, encoded = text(described["name"])
    oldest_us = described.get("oldest_us", 0)
    waited_s = max(0.0, time.time() - oldest_us / SECOND_US) if oldest_us else 0.0
    return shapes.Queue(
        name=name,
        name_base64=encoded,
        ready=described["ready"],
        running=described["running"],
        held=described.get("held", 0),
        delayed=described.get("delayed", 0),
        failed=described["failed"],
        workers=described["workers"],
        paused=described["paused"],
        oldest=moment(oldest_us),
        oldest_s=waited_s,
        average_run_s=seconds(described.get("average_run_us", 0)),
        done_total=described.get("done_total", 0),
        failed_total=described.get("failed_total", 0),
        cancelled_total=described.get("cancelled_total", 0),
        done_s=services.summary.rate(described["name"]),
    )
