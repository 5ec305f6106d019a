"""What monitoring asks for: `/metrics`, `/healthz` and `/readyz`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.sdk.errors import HallRefused
from hiringhall.web import health
from hiringhall.web.guard import LOCAL
from hiringhall.web.metrics import Metrics
from hiringhall.web.problems import of_hall, respond

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from hiringhall.web.guard import Actor
    from hiringhall.web.services import Services


class Monitoring:
    """The handlers of these paths."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._metrics = Metrics(services.options.queue_labels_max)

    async def metrics(self, request: Request) -> Response:
        actor: Actor = request.scope["state"]["actor"]
        try:
            return await self._metrics.respond(
                self._services.halls.of(actor), request.headers.get("accept", "")
            )
        except HallRefused as refused:
            return respond(of_hall(refused))

    async def healthz(self, request: Request) -> Response:
        del request
        return health.alive()

    async def readyz(self, request: Request) -> Response:
        del request
        try:
            hall = self._services.halls.of(LOCAL)
        except HallRefused as refused:
            return health.not_let_in(refused)
        return await health.ready(hall)
