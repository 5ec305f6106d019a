"""What a native door can use of its hall, beside the scheduler: the history, the doors, the schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hiringhall.dialects.native.bounds import DEFAULT_BOUNDS, Bounds
from hiringhall.dialects.native.metering import Metrics
from hiringhall.dialects.native.summing import Summaries

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.changes import HistoryQuery
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.hall import Access, AuditTrail, DoorState, Schedules
    from hiringhall.dialects.session import Session


class HallServices:
    """What the native doors of one hall share."""

    def __init__(
        self,
        scheduler: Scheduler,
        search: Callable[[Session, int, HistoryQuery], None],
        doors: Callable[[], list[DoorState]],
        schedules: Schedules | None,
        bounds: Bounds = DEFAULT_BOUNDS,
        measures: Callable[[], dict[str, Any]] | None = None,
        settings: Callable[[], list[tuple[str, str, str, str]]] = list,
        access: Access | None = None,
        audit: AuditTrail | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.search = search
        """Asks for a page of the history: the session's `searched` is called in a later turn."""
        self.doors = doors
        self.schedules = schedules
        """None: the hall keeps no schedules."""
        self.settings = settings
        """The settings of the hall: name, value, source and description of each."""
        self.bounds = bounds
        self.access = access
        """None: everybody may do everything."""
        self.audit = audit
        """None: nothing is noted."""
        self.summaries = Summaries(scheduler, bounds)
        self.metrics = Metrics(scheduler, bounds, measures)
