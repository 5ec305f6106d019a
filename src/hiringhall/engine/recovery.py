"""Builds the scheduler from the store at the start of the hall."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from hiringhall.core.scheduler import Scheduler

if TYPE_CHECKING:
    from hiringhall.core.limits import Limits
    from hiringhall.storage.contract import Store


def open_scheduler(store: Store, limits: Limits, now_us: int) -> Scheduler:
    """A scheduler with every job in the store. Increments the boot epoch on disk."""
    loaded = store.load(limits.ended_max)
    scheduler = Scheduler(limits, loaded.epoch, now_us)
    # The collector would scan a million new objects again and again although none of them is garbage.
    collecting = gc.isenabled()
    gc.disable()
    try:
        scheduler.restore(loaded)
    finally:
        if collecting:
            gc.enable()
    return scheduler
