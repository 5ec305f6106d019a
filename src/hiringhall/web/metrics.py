"""`/metrics`: what the hall has counted, for Prometheus.

Invariant: a hall that is away is an answer too (`hall_up 0`), so that a scraper can tell it from a web process
that is away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from prometheus_client import ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from starlette.responses import PlainTextResponse, Response

from hiringhall.sdk.errors import HallRefused, HallUnreachable
from hiringhall.web.exposition import families, hall_up
from hiringhall.web.queue_labels import LABELS_MAX, QueueLabels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

KIND: Final = "metrics"
"""The request to the hall."""
OPENMETRICS: Final = "application/openmetrics-text"
FORBIDDEN: Final = ("forbidden", "unauthorized")

_generate_openmetrics: Final[Callable[[Collector], bytes]] = openmetrics.generate_latest
"""It has no types."""


class Asker(Protocol):
    """A native connection."""

    async def shared(self, kind: str, body: Any = None) -> Any:
        """The hall's answer; one of the last second will do."""
        ...


class Metrics:
    """The metrics of one hall."""

    def __init__(self, labels_max: int = LABELS_MAX) -> None:
        self._labels = QueueLabels(labels_max)
        self._web = ProcessCollector(namespace="hall_web", registry=None)

    async def respond(self, hall: Asker, accept: str) -> Response:
        """What a scraper gets that accepts these media types."""
        try:
            answer = await hall.shared(KIND)
        except HallUnreachable:
            answer = None
        except HallRefused as refused:
            return PlainTextResponse(f"{refused}\n", 403 if refused.code in FORBIDDEN else 502)
        data, media_type = self.expose(answer, accept)
        return Response(data, headers={"Content-Type": media_type, "Cache-Control": "no-store"})

    def expose(self, answer: Mapping[str, Any] | None, accept: str = "") -> tuple[bytes, str]:
        """The hall's answer in a format that the scraper accepts, and its media type. None: there is none."""
        made: list[Metric] = [hall_up(answer is not None), *self._web.collect()]
        if answer is not None:
            made += families(answer, self._labels.arrange(answer))
        accepted = {part.partition(";")[0].strip() for part in accept.split(",")}
        if OPENMETRICS in accepted:
            return _generate_openmetrics(_Made(made)), openmetrics.CONTENT_TYPE_LATEST
        return generate_latest(_Made(made)), CONTENT_TYPE_PLAIN_0_0_4


class _Made:
    """Families that are made already, as a collector."""

    def __init__(self, made: Iterable[Metric]) -> None:
        self._made = made

    def collect(self) -> Iterable[Metric]:
        return self._made
