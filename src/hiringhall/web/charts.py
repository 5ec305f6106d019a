"""The chart of ends over time."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from hiringhall.dialects.native import wire
from hiringhall.records import EndCount
from hiringhall.web import filters, hall_shapes
from hiringhall.web.charting import DAY_US, HOUR_US, MINUTE_US, Ends
from hiringhall.web.problems import Problem
from hiringhall.web.values import SECOND_US

if TYPE_CHECKING:
    from hiringhall.web.calls import Call
    from hiringhall.web.charting import Cell, Scale
    from hiringhall.web.history import Reader
    from hiringhall.web.questions import ChartQuestion

SPANS: Final = {
    # The whole, and one part of it.
    "1h": (HOUR_US, MINUTE_US),
    "6h": (6 * HOUR_US, 5 * MINUTE_US),
    "1d": (DAY_US, 15 * MINUTE_US),
    "7d": (7 * DAY_US, 2 * HOUR_US),
    "30d": (30 * DAY_US, 6 * HOUR_US),
}
FILL_S: Final = 0.08
"""How long one request counts."""
PASS_US: Final = 1_000_000
"""A pass that somebody else began counts if it began so long ago at most."""
PAUSE_S: Final = 0.05
"""Between two passes that nobody waits for: others want to read, too."""
ASKED_MAX: Final = 10
"""Pages of the hall's history that a chart is made of where there is no data folder."""
_log = logging.getLogger("hiringhall")
_STATES: Final = {"done": 4, "failed": 5, "cancelled": 6}


class Charts:
    """The ends of the history in a data folder."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._ends: Ends | None = None
        self._pass: asyncio.Task[Ends] | None = None
        """The pass under way. Whoever comes meanwhile waits for it, and does not begin another."""
        self._filling: asyncio.Task[None] | None = None

    async def get(self, since_us: int) -> tuple[Ends, bool]:
        """The ends, counted as far as the time allows; and whether everything from `since_us` on is counted."""
        now_us = time.time_ns() // 1000
        under_way = self._pass
        if under_way is None:
            under_way = self._pass = asyncio.ensure_future(self._count(since_us, now_us))
            under_way.add_done_callback(self._passed)
        ends = await asyncio.shield(under_way)
        complete = ends.has(since_us, now_us - PASS_US)
        if not complete and self._filling is None:
            self._filling = asyncio.ensure_future(self._fill(since_us))
        return ends, complete

    async def _count(self, since_us: int, now_us: int) -> Ends:
        """One pass."""
        ends = self._ends
        if ends is None:
            ends = self._ends = Ends(now_us)
        await self._reader.run(lambda history: ends.fill(history.ends, since_us, now_us, FILL_S))
        return ends

    def _passed(self, _: asyncio.Task[Ends]) -> None:
        self._pass = None

    async def _fill(self, since_us: int) -> None:
        """Go on counting, so that a chart is complete even if nobody asks again soon."""
        try:
            complete = False
            while not complete:
                await asyncio.sleep(PAUSE_S)
                _, complete = await self.get(since_us)
        except Problem as problem:
            _log.warning("the history was not counted to the end: %s", problem)
        finally:
            self._filling = None


async def chart(call: Call) -> hall_shapes.Chart:
    query: ChartQuestion = call.query
    whole_us, part_us = SPANS[query.span]
    now_us = time.time_ns() // 1000
    last_us = now_us // part_us * part_us + part_us
    first_us = last_us - whole_us
    charts = call.services.charts
    if charts is None:
        ends, complete = await _asked(call, first_us, now_us)
    else:
        ends, complete = await charts.get(first_us)
    scale = ends.minutes if part_us < HOUR_US else ends.hours
    queue = b"" if query.queue is UNSET else filters.data(query.queue)
    return hall_shapes.Chart(
        bucket_s=part_us // SECOND_US,
        start=datetime.fromtimestamp(first_us / SECOND_US, UTC),
        items=[_bucket(scale, at_us, part_us, queue) for at_us in range(first_us, last_us, part_us)],
        complete=complete and not (queue and ends.crowded),
    )


def _bucket(scale: Scale, at_us: int, part_us: int, queue: bytes) -> hall_shapes.Bucket:
    cell: Cell = scale.read(at_us, at_us + part_us, queue)
    done, failed, cancelled = cell.counts
    started = cell.started
    return hall_shapes.Bucket(
        at=datetime.fromtimestamp(at_us / SECOND_US, UTC),
        done=done,
        failed=failed,
        cancelled=cancelled,
        wait_s=cell.wait_us / started / SECOND_US if started else None,
        run_s=cell.run_us / started / SECOND_US if started else None,
    )


async def _asked(call: Call, first_us: int, now_us: int) -> tuple[Ends, bool]:
    """As `Charts.get`, of the latest lines that the hall has in memory."""
    ends = Ends(now_us)
    body: dict[str, Any] = {"from_us": first_us, "count": wire.LIST_MAX}
    for _ in range(ASKED_MAX):
        lines, following = await call.hall.shared(wire.HISTORY, body)
        for line in lines:
            found = _counted(line)
            ends.hours.add(found, line["ended_us"])
            ends.minutes.add(found, line["ended_us"])
        if following is None:
            return ends, True
        body = {**body, "before": following}
    return ends, False


def _counted(line: dict[str, Any]) -> EndCount:
    started_us = line["started_us"]
    wait_us = max(0, started_us - line["created_us"]) if started_us else 0
    run_us = max(0, line["ended_us"] - started_us) if started_us else 0
    return EndCount(0, line["queue"], _STATES[line["state"]], 1, int(started_us > 0), wait_us, run_us)
