"""What must hold for those who are woken by name of a role: no more than there must be, and nobody twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .wmptap import PathTap
from .world import Violation

if TYPE_CHECKING:
    from .hall import Hall
    from .laws import Laws


def check(laws: Laws, hall: Hall) -> None:
    """Where somebody was woken in this turn: there are no more who are about to answer than jobs to give, plus
    one for each who has let the time for it pass.
    """
    standing: dict[bytes, int] = {}
    overdue: dict[bytes, int] = {}
    for tap in laws.taps.values():
        if isinstance(tap, PathTap) and tap.waking:
            counts = standing if tap.stands_for_a_job(hall.limits.wake_us) else overdue
            counts[tap.woken_for] = counts.get(tap.woken_for, 0) + 1
    for role in laws.woken_now:
        queue = hall.scheduler.queues.get(role)
        ready = queue.ready if queue is not None else 0
        wanted = ready + overdue.get(role, 0) if ready else 0
        if standing.get(role, 0) > wanted:
            raise Violation("herd", f"{standing[role]} are woken for {ready} jobs of {role!r}")
