"""Opening the hall again on what the store kept."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from hiringhall.core.scheduler import Scheduler

if TYPE_CHECKING:
    from hiringhall.core.limits import Limits
    from hiringhall.storage.contract import Store


def open_scheduler(store: Store, limits: Limits, now_us: int) -> Scheduler:
    """A scheduler with every job that the store holds. The boot epoch is bumped on disk on the way."""
    loaded = store.load(limits.ended_max)
    scheduler = Scheduler(limits, loaded.epoch, now_us)
    # A million new objects that all stay would be walked over and over by the collector.
    collecting = gc.isenabled()
    gc.disable()
    try:
        scheduler.restore(loaded)
    finally:
        if collecting:
            gc.enable()
    return scheduler
