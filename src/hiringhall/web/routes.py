"""The table of routes: everything that the HTTP API can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from hiringhall.web import events, openapi, overview, questions, queues, shapes
from hiringhall.web.openapi import PREFIX
from hiringhall.web.route import EVENTS, JSON, Route

if TYPE_CHECKING:
    from hiringhall.web.calls import Call

__all__ = ["API", "PREFIX"]


async def document(call: Call) -> Response:
    """The OpenAPI document of this table."""
    del call
    return Response(openapi.encoded(API), media_type=JSON)


OVERVIEW: Final = (
    Route("GET", "/hall", "viewer", "The hall, and who asks", overview.hall, shapes.HallShape),
    Route("GET", "/summary", "viewer", "Counts of all queues and workers", overview.summary, shapes.Summary),
    Route("GET", "/doors", "viewer", "Where the hall listens", overview.doors, shapes.DoorList),
    Route("GET", "/events", "viewer", "Summaries as they change", events.summaries, None, media=EVENTS),
    Route("GET", "/openapi.json", "viewer", "This API as an OpenAPI document", document, None),
)

QUEUES: Final = (
    Route("GET", "/queues", "viewer", "Queues", queues.queues, shapes.QueueList, questions.QueuesQuestion),
    Route("GET", "/queues/{name}", "viewer", "One queue", queues.queue, shapes.Queue, errors=(404,)),
    Route(
        "POST",
        "/queues/{name}/pause",
        "operator",
        "Start no more jobs of a queue",
        queues.pause,
        shapes.Queue,
        errors=(404, 409),
    ),
    Route(
        "POST",
        "/queues/{name}/resume",
        "operator",
        "Start jobs of a queue again",
        queues.resume,
        shapes.Queue,
        errors=(404, 409),
    ),
)

API: Final = (*OVERVIEW, *QUEUES)
