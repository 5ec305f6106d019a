"""The hall as a whole: who it is, its summary, its doors, auctions, settings and audit log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from hiringhall import __version__
from hiringhall.dialects.native import wire
from hiringhall.records.record import as_moment
from hiringhall.web import describing, hall_shapes, shapes
from hiringhall.web.cursors import read_place
from hiringhall.web.values import shown

if TYPE_CHECKING:
    from hiringhall.web.calls import Call
    from hiringhall.web.questions import AuditQuestion, Page

AUDIT: Final = "audit"


async def hall(call: Call) -> shapes.HallShape:
    counted = await call.hall.shared(wire.METRICS)
    about = counted["hall"]
    welcome = call.hall.connection.welcome
    trouble = shown(counted["store_trouble"])
    return shapes.HallShape(
        name=shown(about["name"]),
        version=shown(about.get("version", __version__)),
        started=as_moment(about["started_us"]),
        now=datetime.now(UTC),
        data=bool(call.services.options.data),
        store=shapes.StoreState(ok=not trouble, trouble=trouble),
        actor=shapes.ActorShape(name=call.actor.name, role=call.actor.role),
        features=welcome.features if welcome is not None else [],
    )


async def summary(call: Call) -> shapes.Summary:
    return await call.services.summary.get()


async def doors(call: Call) -> hall_shapes.DoorList:
    found = await call.hall.shared(wire.DOORS)
    return hall_shapes.DoorList(
        items=[
            hall_shapes.Door(
                dialect=door["dialect"],
                role=door["role"],
                address=door["address"],
                connections=door["connections"],
            )
            for door in found
        ]
    )


async def auctions(call: Call) -> hall_shapes.AuctionList:
    query: Page = call.query
    position = read_place(query.cursor)
    found = await call.hall.shared(wire.AUCTIONS, (position, query.limit))
    announced = found["auctions"]
    following = position + len(announced)
    return hall_shapes.AuctionList(
        items=[describing.auction(described) for described in announced],
        hirings=[describing.hiring(*hired[:8]) for hired in found["hirings"]],
        next=str(following) if announced and following < found["total"] else None,
    )


async def settings(call: Call) -> hall_shapes.SettingList:
    found = await call.hall.shared(wire.SETTINGS)
    return hall_shapes.SettingList(
        items=[
            hall_shapes.Setting(name=name, value=value, source=source, description=description)
            for name, value, source, description in found
        ]
    )


async def audit(call: Call) -> hall_shapes.AuditList:
    query: AuditQuestion = call.query
    found = await call.hall.ask(AUDIT, (query.limit,))
    return hall_shapes.AuditList(
        items=[
            hall_shapes.AuditLine(
                at=str(line.get("at", "")),
                who=str(line.get("who", "")),
                role=str(line.get("role", "")),
                what=str(line.get("what", "")),
                outcome=str(line.get("outcome", "")),
                address=str(line.get("from", "")),
                job=str(line.get("job", "")),
                queue=str(line.get("queue", "")),
                name=str(line.get("schedule") or line.get("flow") or line.get("worker") or ""),
                rules=str(line.get("rules", "")),
                person=str(line.get("person", "")),
                through=str(line.get("through", "")),
            )
            for line in found
        ]
    )
