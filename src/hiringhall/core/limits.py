"""Every bound of the hall, in one place. Zero never means "no bound"."""

from __future__ import annotations

from dataclasses import dataclass

SECOND_US = 1_000_000


@dataclass(frozen=True)
class Limits:
    """The bounds that the core keeps. The unit is the last word of each name."""

    jobs_max: int = 20_000_000
    """Live jobs in the hall; the next submit is refused."""
    queues_max: int = 100_000
    """Queues that exist at once."""
    queue_name_bytes_max: int = 512
    key_bytes_max: int = 4096
    """A job's key, and the name of a worker known by it. Tasks of dwork are commands, and their names keys."""
    payload_bytes_max: int = 64 << 20
    """One job's payload, one chunk, one result."""
    parents_max: int = 10_000
    """Parents of one job."""
    graph_walk_max: int = 1_000_000
    """Jobs looked at when a new edge is checked for a cycle; past it the edge is refused."""
    watchers_max: int = 100_000
    """Watchers of one job."""
    abilities_max: int = 10_000
    """Queues that one worker can do."""
    residents_max: int = 100_000
    """Workers that are known by name, whether or not they are there."""
    ended_max: int = 100_000
    """Ended jobs kept in memory so that they can be found, named as parents, and retried."""
    ended_bytes_max: int = 64 << 20
    """Payload bytes of failed jobs kept for a retry."""
    wake_us: int = SECOND_US // 2
    """A woken worker that has not asked for work after this long is passed over for the next."""
