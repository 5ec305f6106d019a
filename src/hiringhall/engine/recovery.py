"""Builds the scheduler from the store at the start of the hall."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, NamedTuple

from hiringhall.core import restoring
from hiringhall.core.errors import invariant
from hiringhall.core.scheduler import Scheduler

if TYPE_CHECKING:
    from hiringhall.core.changes import Loaded
    from hiringhall.core.limits import Limits
    from hiringhall.storage.contract import Store


class Restored(NamedTuple):
    """A scheduler that was filled before its hall opens, with what the store has read ahead."""

    scheduler: Scheduler
    at_us: int
    """When that was."""


def restore_ahead(loaded: Loaded, limits: Limits, now_us: int) -> Restored:
    """Fill a scheduler with what was read ahead."""
    return Restored(_restored(loaded, limits, now_us), now_us)


def open_scheduler(store: Store, limits: Limits, now_us: int, restored: Restored | None = None) -> Scheduler:
    """A scheduler with every job in the store. Increments the boot epoch on disk. `restored` is used if the
    store says that nothing has changed since.
    """
    loaded = store.load(limits.ended_max)
    if not loaded.unchanged:
        return _restored(loaded, limits, now_us)
    invariant(restored is not None, "the store has read ahead, and nothing was restored")
    assert restored is not None
    restoring.open_restored(restored.scheduler, loaded.epoch, now_us, restored.at_us)
    return restored.scheduler


def _restored(loaded: Loaded, limits: Limits, now_us: int) -> Scheduler:
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
