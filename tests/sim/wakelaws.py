"""What must hold for those who are woken by name of a role: one for one job, and nobody twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .wmptap import PathTap
from .world import Violation

if TYPE_CHECKING:
    from .hall import Hall
    from .laws import Laws


def check(laws: Laws, hall: Hall) -> None:
    """Where somebody was woken in this turn, no more are being woken than there are jobs to give."""
    waking: dict[bytes, int] = {}
    fresh: dict[bytes, None] = {}
    for tap in laws.taps.values():
        if isinstance(tap, PathTap) and tap.waking:
            waking[tap.woken_for] = waking.get(tap.woken_for, 0) + 1
            if tap.woken_us == laws.now_us:
                fresh[tap.woken_for] = None
    for role in fresh:
        queue = hall.scheduler.queues.get(role)
        ready = queue.ready if queue is not None else 0
        if waking[role] > ready:
            raise Violation("herd", f"{waking[role]} are woken for {ready} jobs of {role!r}")
