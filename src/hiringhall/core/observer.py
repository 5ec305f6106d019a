"""What the core tells the operator: one narrow interface for events that deserve a line in the log.

The core writes no log. It calls an `Observer`, which the composition root replaces by one that does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.workers import Worker


@mypyc_attr(allow_interpreted_subclasses=True)
class Observer:
    """Receives events in the middle of a turn. It calls no verb, and does not block. This one ignores all."""

    def dead_letter(self, job: Job, worker: Worker | None) -> None:
        """A durable job has failed for good; `worker` made the last attempt, if the job was with one."""

    def worker_lost(self, worker: Worker, job: Job | None, reason: bytes = b"") -> None:
        """A worker is gone or silent for too long while it held `job`; None: it was silent and held none. A
        worker that reports a loss itself may say why.
        """
