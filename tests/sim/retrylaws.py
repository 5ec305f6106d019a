"""What must hold when dead letters are retried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .world import Violation

if TYPE_CHECKING:
    from .laws import Laws


def jobs_of_flow(laws: Laws, name: bytes) -> list[int]:
    """Those that live, and those that have failed or may have."""
    flow = laws.scheduler.flows.by_name.get(name)
    live = list(flow.jobs) if flow is not None else []
    return live + [row.id for row in laws.mirror.history.values() if row.flow == name]


def retrying(laws: Laws, job_id: int, *, with_flow: bool = False) -> None:
    """Somebody asks for it: from now on the job may run again."""
    sight = laws.see(job_id)
    sight.retried = True
    if not with_flow:
        sight.retried_alone = True
    sight.losses = sight.failures = sight.ended_order = sight.not_before_us = 0
    if sight.holding is not None:
        sight.holding.lost = False


def history_answered(laws: Laws, job_id: int) -> None:
    """A retry may have waited for this answer, and may have been asked for before the job had failed, even
    before there was a job of that id.
    """
    if laws.see(job_id).retried_alone:
        retrying(laws, job_id)


def retried(laws: Laws, job_id: int, dead_since_us: int = 0) -> None:
    """That is told. Of a dead letter, it is known when it had ended as the retry was asked for."""
    row = laws.mirror.history.get(job_id)
    if job_id not in laws.mirror.live:
        if row is None:
            raise Violation("promise", f"the retry of {job_id} was told before it was on disk")
        if dead_since_us and row.ended_us == dead_since_us:
            raise Violation("retry", f"the retry of {job_id} was told, and it is the dead letter that it was")
