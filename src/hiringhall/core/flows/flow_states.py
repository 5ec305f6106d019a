"""What a flow as a whole is doing, and which jobs the rest of it waits for.

Invariant: a question looks at a bounded number of jobs and edges, however large the flow is.
"""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.core.states import CANCELLED, DONE, FAILED, HELD, STATE_NAMES

if TYPE_CHECKING:
    from hiringhall.core.flows.flows import Flow
    from hiringhall.core.jobs import Job, ParentRef
    from hiringhall.core.table import JobTable

RUNNING: Final = "running"
STUCK: Final = "stuck"
"""It has live jobs, and none of them can run: all wait for parents that did not succeed or never came."""
FLOW_STATES: Final = (RUNNING, "done", "failed", "cancelled", STUCK)
EDGES_MAX: Final = 10_000
"""Edges that are looked at to tell whether a flow is stuck."""
LOOKED_MAX: Final = 10_000
"""Jobs and edges that are looked at to find out what blocks the rest."""
BLOCKERS_MAX: Final = 20


class Blocker(NamedTuple):
    """A job that others of a flow wait for."""

    waiting: int
    """How many jobs wait for it directly."""
    id: int
    """0: only its name is known."""
    queue: bytes
    key: bytes
    state: str
    """Empty: it is not known in memory."""


def flow_state(table: JobTable, flow: Flow, edges_max: int = EDGES_MAX) -> str:
    """One of `FLOW_STATES`."""
    if flow.live:
        return STUCK if flow.counts[HELD] == flow.live and _is_stuck(table, flow, edges_max) else RUNNING
    if flow.counts[FAILED]:
        return STATE_NAMES[FAILED]
    return STATE_NAMES[CANCELLED if flow.counts[CANCELLED] else DONE]


def _is_stuck(table: JobTable, flow: Flow, edges_max: int) -> bool:
    """All its live jobs are HELD: whether none of them waits for a live job outside the flow, or for an answer
    of the history.
    """
    looked = 0
    for job in flow.jobs.values():
        for ref, parent in (job.parents or {}).items():
            if parent is None:
                if table.graph.parent_lookups.pending(ref):
                    return False
            elif parent.flow is not flow and parent.state < DONE:
                return False
            looked += 1
            if looked >= edges_max:
                return True
    return True


def blockers(table: JobTable, flow: Flow) -> list[Blocker]:
    """The jobs that most others of the flow wait for, and that wait for no other job themselves."""
    ready: list[Blocker] = []
    outside: dict[int, Job] = {}
    missing: dict[ParentRef, int] = {}
    looked = 0
    for job in flow.jobs.values():
        if job.state >= DONE:
            continue
        looked += 1
        if job.state == HELD:
            for ref, parent in (job.parents or {}).items():
                looked += 1
                if parent is None:
                    missing[ref] = missing.get(ref, 0) + 1
                elif parent.flow is not flow:
                    outside[parent.id] = parent
        elif job.children is not None:
            ready.append(_described(job, len(job.children)))
        if looked >= LOOKED_MAX:
            break
    ready += [_described(job, len(job.children or ())) for job in outside.values()]
    ready += [_unmet(table, ref, waiting) for ref, waiting in missing.items()]
    return nlargest(BLOCKERS_MAX, ready)


def _described(job: Job, waiting: int) -> Blocker:
    return Blocker(waiting, job.id, job.queue.name, job.key, STATE_NAMES[job.state])


def _unmet(table: JobTable, ref: ParentRef, waiting: int) -> Blocker:
    """A parent that failed, or that is not known."""
    ended = table.archive.find_ref(ref)
    if ended is not None:
        return _described(ended, waiting)
    return Blocker(waiting, ref, b"", b"", "") if isinstance(ref, int) else Blocker(waiting, 0, *ref, "")
