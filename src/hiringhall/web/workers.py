"""Workers: the list, one of them, drain and undrain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from hiringhall.dialects.native import wire
from hiringhall.web import describing, filters, hall_shapes
from hiringhall.web.cursors import read_place
from hiringhall.web.problems import Problem

if TYPE_CHECKING:
    from hiringhall.web.calls import Call
    from hiringhall.web.questions import WorkersQuestion

DRAIN: Final = "drain"
UNDRAIN: Final = "undrain"
PAGES_MAX: Final = 20
"""Pages of the hall that one request may look through for workers that match."""


async def workers(call: Call) -> hall_shapes.WorkerList:
    query: WorkersQuestion = call.query
    position = read_place(query.cursor)
    narrowed = query.dialect is not UNSET or query.text is not UNSET
    asked = wire.LIST_MAX if narrowed else query.limit
    found: list[dict[str, Any]] = []
    for _ in range(PAGES_MAX):
        body: tuple[Any, ...] = (position, asked)
        if query.queue is not UNSET:
            body = (*body, filters.data(query.queue))
        page = await call.hall.shared(wire.WORKERS, body)
        for place, described in enumerate(page):
            if _matches(query, described):
                found.append(described)
                if len(found) == query.limit:
                    return _listed(found, position + place + 1, last=place + 1 == len(page) < asked)
        position += len(page)
        if len(page) < asked:
            return _listed(found, position, last=True)
    return _listed(found, position, last=False)


def _listed(found: list[dict[str, Any]], position: int, *, last: bool) -> hall_shapes.WorkerList:
    items = [describing.worker(described) for described in found]
    return hall_shapes.WorkerList(items=items, next=None if last else str(position))


def _matches(query: WorkersQuestion, described: dict[str, Any]) -> bool:
    if query.dialect is not UNSET and described.get("dialect", "") != query.dialect:
        return False
    if query.text is UNSET:
        return True
    wanted = filters.data(query.text).lower()
    return wanted in described["name"].lower() or wanted in described.get("address", "").encode().lower()


async def worker(call: Call) -> hall_shapes.Worker:
    return describing.worker(await call.hall.ask(wire.WORKER, (_number(call),)))


async def drain(call: Call) -> hall_shapes.Worker:
    return await _change(call, DRAIN)


async def undrain(call: Call) -> hall_shapes.Worker:
    return await _change(call, UNDRAIN)


async def _change(call: Call, kind: str) -> hall_shapes.Worker:
    await call.hall.change(kind, (_number(call),))
    return await worker(call)


def _number(call: Call) -> int:
    written = call.path["number"]
    if not (written.isdigit() and len(written) <= 18):
        raise Problem("bad_request", f"number: {written.decode(errors='replace')[:40]!r} is not a number")
    return int(written)
