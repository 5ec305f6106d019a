"""What a hall counts beside its jobs: its process, its event loop, its store and its doors."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import hiringhall
from hiringhall.process import open_descriptors, resident_bytes

if TYPE_CHECKING:
    from hiringhall.core.histograms import Histogram
    from hiringhall.engine.driver import Driver
    from hiringhall.logs.events import Events
    from hiringhall.server.opening import OpenParts


class HallMeasures:
    """Read by the native request `metrics`."""

    def __init__(self, name: str, driver: Driver, parts: OpenParts, events: Events) -> None:
        self._name = name
        self._driver = driver
        self._parts = parts
        self._events = events
        self._started_us = driver.clock.now_us()

    def read(self) -> dict[str, Any]:
        """All of it, as a part of the answer."""
        self._driver.watch_lag()
        events: dict[str, dict[str, int]] = {}
        for (kind, door), count in self._events.counts.items():
            events.setdefault(door, {})[kind] = count
        return {"hall": self._hall(), "doors": self._doors(events), "events": events.get("", {})}

    def _hall(self) -> dict[str, Any]:
        measures = self._driver.measures
        return {
            "name": self._name,
            "version": hiringhall.__version__,
            "started_us": self._started_us,
            "resident_bytes": resident_bytes(),
            "descriptors": open_descriptors(),
            "cpu_us": time.process_time_ns() // 1000,
            "turns": measures.turns,
            "pauses": measures.pauses,
            "lag": _times(measures.lag),
            "commit": _times(measures.commit),
            "commit_rows": measures.commit_rows,
            "commit_failures": measures.commit_failures,
        }

    def _doors(self, events: dict[str, dict[str, int]]) -> list[dict[str, Any]]:
        return [
            {
                "door": door.name,
                "connections": door.peers,
                "accepted": door.accepted,
                "received_bytes": door.received_bytes,
                "sent_bytes": door.sent_bytes,
                "events": events.get(door.name, {}),
            }
            for door in self._parts.transports
        ]


def _times(histogram: Histogram) -> tuple[int, list[int]]:
    """The sum, and the counts of the buckets."""
    return histogram.sum_us, histogram.counts
