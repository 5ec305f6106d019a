"""The limits of the core, in one place. Zero never means "no limit"."""

from __future__ import annotations

from dataclasses import dataclass

SECOND_US = 1_000_000
LIMITED_SHARE = 10
"""One queue in this many may exist only because a limit, a pause, or rules were set for its jobs."""


@dataclass(frozen=True)
class Limits:
    """The limits that the core enforces. The unit is the last word of each name."""

    jobs_max: int = 20_000_000
    """Live jobs in the hall; with that many a submit is refused."""
    queues_max: int = 100_000
    """Queues that exist at once."""
    queue_name_bytes_max: int = 512
    key_bytes_max: int = 4096
    """A job's key, or the name of a resident. The names of dwork tasks are keys, and are often commands."""
    payload_bytes_max: int = 64 << 20
    """One job's payload, one chunk, one result."""
    parents_max: int = 10_000
    """Parents of one job."""
    graph_walk_max: int = 1_000_000
    """Jobs visited when a new edge is checked for a cycle; if more are needed the edge is refused."""
    watchers_max: int = 100_000
    """Watchers of one job."""
    abilities_max: int = 10_000
    """Queues of one worker."""
    residents_max: int = 100_000
    """Residents, whether or not they are present."""
    ended_max: int = 100_000
    """Ended jobs kept in memory so that they can be found, named as parents, and retried."""
    ended_bytes_max: int = 64 << 20
    """Payload bytes of failed jobs kept for a retry."""
    flows_max: int = 10_000
    """Flows kept after their end, with their counts; the oldest are dropped."""
    wake_us: int = SECOND_US // 2
    """A woken worker that has not asked for work after this time loses its turn to the next."""
    reserve_after_us: int = 5 * SECOND_US
    """A worker is reserved for a job that fits none after it has waited for so long."""
