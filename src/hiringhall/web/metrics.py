"""`/metrics`: what the hall has counted, for Prometheus.

Invariant: a hall that is away is an answer too (`hall_up 0`), so that a scraper can tell it from a web process
that is away. However many scrapers there are, each answer of the hall is written once in each format, in a
thread, so that other requests do not wait for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from prometheus_client import ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from starlette.responses import Response

from hiringhall.sdk.errors import HallUnreachable
from hiringhall.web.exposition import families, hall_up
from hiringhall.web.queue_labels import LABELS_MAX, QueueLabels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

KIND: Final = "metrics"
"""The request to the hall."""
OPENMETRICS: Final = "application/openmetrics-text"

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
        self._writing = asyncio.Lock()
        self._written: dict[bool, tuple[int, bytes]] = {}
        """The latest exposition in each format, and the time of the answer that it was made of."""

    async def respond(self, hall: Asker, accept: str) -> Response:
        """What a scraper gets that accepts these media types. Raises HallRefused."""
        try:
            answer = await hall.shared(KIND)
        except HallUnreachable:
            answer = None
        is_open = OPENMETRICS in {part.partition(";")[0].strip() for part in accept.split(",")}
        async with self._writing:
            data = await asyncio.to_thread(self.expose, answer, is_open=is_open)
        media_type = openmetrics.CONTENT_TYPE_LATEST if is_open else CONTENT_TYPE_PLAIN_0_0_4
        return Response(data, headers={"Content-Type": media_type, "Cache-Control": "no-store"})

    def expose(self, answer: Mapping[str, Any] | None, *, is_open: bool = False) -> bytes:
        """The hall's answer as text, or in the format OpenMetrics. None: it has not answered."""
        at_us = answer["at_us"] if answer is not None else 0
        written_us, data = self._written.get(is_open, (0, b""))
        if not at_us or at_us != written_us:
            made: list[Metric] = [hall_up(answer is not None), *self._web.collect()]
            if answer is not None:
                made += families(answer, self._labels.arrange(answer))
            data = _generate_openmetrics(_Made(made)) if is_open else generate_latest(_Made(made))
            self._written[is_open] = at_us, data
        return data


class _Made:
    """Families that are made already, as a collector."""

    def __init__(self, made: Iterable[Metric]) -> None:
        self._made = made

    def collect(self) -> Iterable[Metric]:
        return self._made
