"""The hall as a whole: who it is, its summary, its doors."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hiringhall import __version__
from hiringhall.dialects.native import wire
from hiringhall.web import shapes

if TYPE_CHECKING:
    from hiringhall.web.calls import Call


async def hall(call: Call) -> shapes.HallShape:
    await call.hall.shared(wire.DOORS)
    welcome = call.hall.connection.welcome
    assert welcome is not None, "the hall has answered"
    return shapes.HallShape(
        name=welcome.hall,
        version=__version__,
        started=None,
        now=datetime.now(UTC),
        data=bool(call.services.options.data),
        store=shapes.StoreState(ok=True, trouble=""),
        actor=shapes.ActorShape(name=call.actor.name, role=call.actor.role),
        features=welcome.features,
    )


async def summary(call: Call) -> shapes.Summary:
    return await call.services.summary.get()


async def doors(call: Call) -> shapes.DoorList:
    found = await call.hall.shared(wire.DOORS)
    return shapes.DoorList(
        items=[
            shapes.Door(
                dialect=door["dialect"],
                role=door["role"],
                address=door["address"],
                connections=door["connections"],
            )
            for door in found
        ]
    )
