"""Schedules: the list, add, remove, pause, resume, run now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from hiringhall.config.quantities import Age
from hiringhall.dialects.native import wire
from hiringhall.web import describing, hall_shapes
from hiringhall.web.cursors import read_place
from hiringhall.web.problems import Problem
from hiringhall.web.submitting import needs_of, terms_of
from hiringhall.web.values import SECOND_US, seconds

if TYPE_CHECKING:
    from hiringhall.web.bodies import NewSchedule
    from hiringhall.web.calls import Call
    from hiringhall.web.questions import Page

PAUSE: Final = "pause_schedule"
RESUME: Final = "resume_schedule"
RUN: Final = "run_schedule"


async def schedules(call: Call) -> hall_shapes.ScheduleList:
    query: Page = call.query
    position = read_place(query.cursor)
    found = await call.hall.shared(wire.SCHEDULES, (position, query.limit))
    following = str(position + query.limit) if len(found) == query.limit else None
    return hall_shapes.ScheduleList(items=[schedule_of(described) for described in found], next=following)


async def add(call: Call) -> hall_shapes.Schedule:
    stated: NewSchedule = call.body
    body: dict[str, Any] = {
        "name": stated.name,
        "queue": stated.queue,
        "payload": stated.payload,
        "key": stated.key,
        "replace": stated.replace,
        "terms": terms_of(stated),
    }
    for name in ("limit_key", "tenant"):
        if getattr(stated, name):
            body["terms"][name] = getattr(stated, name)
    if stated.resources is not UNSET and (needs := needs_of(stated.resources)):
        body["terms"]["resources"] = needs
    for name in ("cron", "timezone", "missed"):
        if getattr(stated, name) is not UNSET:
            body[name] = getattr(stated, name)
    if stated.every_s is not UNSET:
        body["every_us"] = round(stated.every_s * SECOND_US)
    if stated.late_s is not UNSET:
        body["late_us"] = round(stated.late_s * SECOND_US)
    await call.hall.change(wire.SCHEDULE, body)
    return await _find(call, stated.name)


async def remove(call: Call) -> hall_shapes.Done:
    name = _name(call)
    await _find(call, name)
    await call.hall.change(wire.UNSCHEDULE, (name,))
    return hall_shapes.Done()


async def pause(call: Call) -> hall_shapes.Schedule:
    return await _change(call, PAUSE)


async def resume(call: Call) -> hall_shapes.Schedule:
    return await _change(call, RESUME)


async def run(call: Call) -> hall_shapes.Fired:
    name = _name(call)
    await _find(call, name)
    return hall_shapes.Fired(id=str(await call.hall.change(RUN, (name,))))


async def _change(call: Call, kind: str) -> hall_shapes.Schedule:
    name = _name(call)
    await _find(call, name)
    await call.hall.change(kind, (name,))
    return await _find(call, name)


async def _find(call: Call, name: str) -> hall_shapes.Schedule:
    position = 0
    while True:
        page = await call.hall.ask(wire.SCHEDULES, (position, wire.LIST_MAX))
        for described in page:
            if described["name"] == name:
                return schedule_of(described)
        if len(page) < wire.LIST_MAX:
            raise Problem("unknown_schedule", f"there is no schedule {name!r}")
        position += wire.LIST_MAX


def _name(call: Call) -> str:
    try:
        return call.path["name"].decode()
    except UnicodeDecodeError:
        raise Problem("unknown_schedule", "the name of a schedule is UTF-8") from None


def schedule_of(described: dict[str, Any]) -> hall_shapes.Schedule:
    """From the map of the native protocol."""
    upcoming = described.get("next") or ()
    terms = {"priority": described["priority"], "retries": described["retries"]}
    terms |= describing.terms(described.get("terms") or {})
    every = described.get("every")
    last_id = described.get("last_id")
    return hall_shapes.Schedule(
        name=described["name"],
        queue=described["queue"],
        payload=described["payload"],
        key=described["key"],
        cron=described["cron"],
        every_s=seconds(Age.parse(every)) if every else None,
        timezone=described["timezone"],
        next=_utc(upcoming[0]) if upcoming else None,
        last=_utc(described["last"]) if described.get("last") else None,
        paused=described.get("paused", False),
        source="settings" if described["defined"] == "settings" else "added",
        missed=described["missed"],
        late_s=described["late_s"],
        terms=terms,
        last_id=str(last_id) if last_id else None,
    )


def _utc(written: str) -> datetime:
    """A time that the hall states in the time zone of the schedule."""
    return datetime.fromisoformat(written).astimezone(UTC)
