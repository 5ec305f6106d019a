"""Queues: the list, one of them, pause and resume, and their rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from hiringhall.dialects.native import wire
from hiringhall.web import describing, filters, shapes
from hiringhall.web.cursors import read_place
from hiringhall.web.problems import Problem
from hiringhall.web.values import SECOND_US

if TYPE_CHECKING:
    from hiringhall.web.bodies import NewRules
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


async def rules(call: Call) -> shapes.QueueRules:
    found = await _find(call, call.path["name"])
    return describing.queue_rules(found["rules"], are_set=found["rules_set"])


async def set_rules(call: Call) -> shapes.QueueRules:
    body: NewRules = call.body
    if body.burst is not UNSET and body.starts_per_second is UNSET:
        raise Problem("bad_request", "burst: is used only with starts_per_second")
    if body.tenant_weights is not UNSET and not body.fair:
        raise Problem("bad_request", "tenant_weights: are used only with fair")
    stated: dict[str, Any] = {"name": call.path["name"], "fair": body.fair}
    for name in ("running_max", "key_running_max", "burst"):
        value = getattr(body, name)
        if value is not UNSET:
            stated[name] = int(value)
    if body.starts_per_second is not UNSET:
        stated["starts_per_second"] = body.starts_per_second
    if body.tenant_weights is not UNSET:
        stated["tenant_weights"] = {
            tenant.encode(): int(weight) for tenant, weight in body.tenant_weights.items()
        }
    if body.age_max_s is not UNSET:
        stated["age_max_us"] = round(body.age_max_s * SECOND_US)
    return await _rule(call, wire.LIMIT, stated)


async def clear_rules(call: Call) -> shapes.QueueRules:
    return await _rule(call, wire.UNLIMIT, {"name": call.path["name"]})


async def _rule(call: Call, kind: str, stated: dict[str, Any]) -> shapes.QueueRules:
    found = await call.hall.change(kind, stated)
    return describing.queue_rules(found["rules"], are_set=found["set"])


async def _change(call: Call, kind: str) -> shapes.Queue:
    name = call.path["name"]
    await call.hall.change(kind, (name,))
    return queue_of(call.services, await _find(call, name))


async def _find(call: Call, name: bytes) -> dict[str, Any]:
    found: dict[str, Any] = await call.hall.ask(wire.QUEUE, (name,))
    return found


def queue_of(services: Services, described: dict[str, Any]) -> shapes.Queue:
    return describing.queue(described, services.summary.rate(described["name"]))
