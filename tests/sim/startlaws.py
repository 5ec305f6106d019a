"""What must hold when a job is handed out: its time has come, its parents are met, somebody wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.reports import REPORTED
from hiringhall.core.states import DONE
from hiringhall.core.terms import FAIL_WITH_PARENT, HOLD, RUN_ANYWAY

from .world import Violation

if TYPE_CHECKING:
    from hiringhall.core.jobs import ParentRef

    from .laws import Laws
    from .sights import Sight, Submit


def check(laws: Laws, sight: Sight, submit: Submit, *, ahead_us: int = 0) -> None:
    """Who is hired may be so some time before the job is due."""
    if (sight.ended_order and sight.id not in laws.cancels_now) or sight.gone:
        raise Violation("one end", f"job {sight.id} had ended and is handed out again")
    if sight.earliest_us > laws.now_us + ahead_us:
        raise Violation("due", f"job {sight.id} is handed out before its time")
    paused_us = laws.pauses.since_us.get(submit.queue, 0)
    if 0 < paused_us < _chosen_us(laws, sight):
        raise Violation("paused", f"job {sight.id} is handed out, and its queue is paused")
    job = laws.scheduler.jobs.get(sight.id)
    if job is not None and job.lease is not None:
        laws.drains.started(job.lease)
        if laws.limits is not None:
            laws.limits.started(job, laws.now_us, laws.scheduler)
    if submit.losses_max and sight.losses >= submit.losses_max:
        raise Violation("losses", f"job {sight.id} has cost {sight.losses} workers and is handed out")
    if sight.failures > submit.failures_max and not sight.retried:
        raise Violation("failures", f"job {sight.id} has failed {sight.failures} times and is handed out")
    if not sight.retried:
        for ref in sight.parents:
            _parent_met(laws, sight, submit, ref)
    _parents_in_flow_met(laws, sight)
    if _abandoned(laws, sight, submit):
        raise Violation("abandoned", f"job {sight.id} is handed out and nobody waits for it")


def _parents_in_flow_met(laws: Laws, sight: Sight) -> None:
    """Also a job that was retried with its flow waits for the parents that were."""
    job = laws.scheduler.jobs.get(sight.id)
    if job is None or job.flow is None or sight.retried_alone:
        return
    if job.terms.on_parent_failure != FAIL_WITH_PARENT:
        return
    for ref in job.all_parents:
        parent = laws.scheduler.jobs.get(ref) if isinstance(ref, int) else None
        if parent is not None and parent.flow is job.flow:
            raise Violation("flow", f"job {job.id} is handed out, and its parent {ref} has not ended")


def _parent_met(laws: Laws, sight: Sight, submit: Submit, ref: ParentRef) -> None:
    """The parent has succeeded, or at least ended where that is enough."""
    parents = _parents(laws, ref)
    if isinstance(ref, int) and submit.on_parent_failure == HOLD and not laws.know_name(parents[0]):
        return  # nobody was told of the parent: which name will do cannot be known
    if isinstance(ref, int) and parents[0].key and (submit.on_parent_failure == HOLD or parents[0].gone):
        # A parent that failed for a child that holds on, or died with the hall: its name will do.
        parents = _parents(laws, (parents[0].queue, parents[0].key))
    if isinstance(ref, int) and ref in laws.withdrawn and ref not in laws.mirror.history:
        # A parent that was taken back when a commit failed: for a child that came before, its name will do.
        name, order = laws.withdrawn[ref]
        if submit.order <= order:
            parents = [parents[0], *_parents(laws, name)]
    names: list[ParentRef] = [(parent.queue, parent.key) for parent in parents]
    parent = laws.scheduler.find(ref) if isinstance(ref, int) else None
    if parent is not None and parent.extras is not None and REPORTED in parent.extras:
        # Nobody is told the id of a task that was done outside; the child has guessed it.
        names.append((parent.queue.name, parent.key))
    met = any(parent.succeeded or parent.id in laws.foreign for parent in parents)
    if met or _told_done(laws, ref, *names):
        return
    if submit.on_parent_failure != RUN_ANYWAY:
        raise Violation("parents", f"job {sight.id} is handed out before its parent {ref} has succeeded")
    if parents and not _unseen(laws, ref) and all(parent.running and not parent.retried for parent in parents):
        raise Violation("parents", f"job {sight.id} is handed out while its parent {ref} runs")


def _told_done(laws: Laws, *refs: ParentRef) -> bool:
    """Somebody has told that a task of that name was done outside."""
    return any(not code for ref in refs for code in laws.reported.get(ref, {}).values())


def _parents(laws: Laws, ref: ParentRef) -> list[Sight]:
    """All jobs that a child may have meant."""
    if isinstance(ref, int):
        return [laws.see(ref)]
    return [parent for parent in laws.sights.values() if (parent.queue, parent.key) == ref]


def _unseen(laws: Laws, ref: ParentRef) -> bool:
    """A name may have meant a job that nobody was told of."""
    return not isinstance(ref, int) and any(not submit.acknowledged for submit in laws.named.get(ref, ()))


def maybe_unmet(laws: Laws, ref: ParentRef, child_id: int) -> bool:
    """The child may still have to wait. A name may mean any job that had it, before the child came or after."""
    parents = _parents(laws, ref)
    if isinstance(ref, int):
        return not parents[0].succeeded_surely
    later = any(parent.id > child_id for parent in parents)
    return _unseen(laws, ref) or not later or not all(parent.succeeded_surely for parent in parents)


def done_in_history(laws: Laws, ref: ParentRef) -> bool:
    """Every job of that name has ended and is in the history, and the last of them succeeded."""
    if isinstance(ref, int):
        rows = [laws.mirror.history[ref]] if ref in laws.mirror.history else []
    else:
        rows = [row for row in laws.mirror.history.values() if (row.queue, row.key) == ref]
        known = {row.id for row in rows}
        if _unseen(laws, ref) or any(parent.id not in known for parent in _parents(laws, ref)):
            return False
    return len(rows) > 0 and max(rows, key=lambda row: (row.ended_us, row.id)).state == DONE


def met_since(laws: Laws, ref: ParentRef, order: int) -> bool:
    """Some job of that name has surely succeeded since then."""
    return any(parent.succeeded_surely and parent.ended_order > order for parent in _parents(laws, ref))


def _abandoned(laws: Laws, sight: Sight, submit: Submit) -> bool:
    """Everybody who asked for it was known to be gone before it was chosen, and it was to go with them.

    An answer that waited for the disk tells of a choice that was made before.
    """
    asked = [submit, *laws.named.get((submit.queue, submit.key), ())]
    if any(other.durable or other.detached for other in asked):
        return False
    taps = [other.tap for other in asked] + sight.watchers
    chosen_us = _chosen_us(laws, sight)
    return all(not tap.open and tap.parted_us < chosen_us for tap in taps)


def may_end_when_given_back(laws: Laws, sight: Sight) -> bool:
    """It does not live on without a watcher, and nobody is known to watch it: those who did may have left, or
    the hall was restarted since.
    """
    row = laws.mirror.live.get(sight.id)
    terms = row.terms if row is not None else sight.submit or laws.find_maker(sight.id)
    if terms is None or terms.detached:
        return False
    return not any(
        tap.open and tap.watches.get(sight.id) and sight.id not in tap.unwatched for tap in sight.watchers
    )


def _chosen_us(laws: Laws, sight: Sight) -> int:
    """When its worker was chosen. What tells of it may have waited for the disk."""
    job = laws.scheduler.jobs.get(sight.id)
    return job.lease.started_us if job is not None and job.lease is not None else laws.now_us
