"""Bugs for the laws to find. Each replaces a few methods of the hall's own classes by wrong ones.

The law: a simulator that finds none of these would prove nothing. Compiled classes cannot be changed, so
bugs are planted only where the sources run as plain Python.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest.mock import patch

from hiringhall.core import restoring
from hiringhall.core import scheduler as scheduler_module
from hiringhall.core.depending import Dependencies
from hiringhall.core.graph import Graph
from hiringhall.core.lanes import Lane
from hiringhall.core.leasing import Leases
from hiringhall.core.ledger import Ledger
from hiringhall.core.matching import Matching
from hiringhall.core.parent_lookups import ParentLookups
from hiringhall.core.queues import Queue
from hiringhall.core.states import DELAYED, DONE, HELD, LEASED, LOST, QUEUED
from hiringhall.core.submitting import Submissions
from hiringhall.core.table import JobTable
from hiringhall.core.terms import HOLD
from hiringhall.core.timers import Timers
from hiringhall.core.waking import Wakeups
from hiringhall.core.watching import Watchers
from hiringhall.core.workforce import Workforce
from hiringhall.dialects.session import Session
from hiringhall.engine import output
from hiringhall.engine.grouping import GroupCommit
from hiringhall.engine.turn import Engine
from hiringhall.storage.memory import MemoryStore

from . import (
    plantedbean,
    plantedcluster,
    planteddraft,
    plantedhire,
    plantedlimits,
    plantednative,
    plantedoverseen,
    plantedresources,
    plantedzmq,
)
from .clusterworld import CLUSTER_SEEDS_FROM
from .disk import OUTCOME_SEEDS_FROM
from .flowplayers import FLOW_SEEDS_FROM
from .limitlaws import LIMITS_SEEDS_FROM
from .overseers import OVERSEEN_SEEDS_FROM
from .pausers import PAUSING_SEEDS_FROM
from .resourcelaws import RESOURCES_SEEDS_FROM
from .runs import run_of
from .scenario import speaks_natively, speaks_of_beans
from .world import SECOND, Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.workers import Worker

SEEDS_MAX: Final = 500
CLUSTER_SEEDS_MAX: Final = 1000
FIRST_SEEDS: Final = {
    "task of an unreachable stealer stays assigned": 565,
    "cancelled job still counted": 5,
    "DONE of an earlier attempt": 280,
    "paused queue is matched": PAUSING_SEEDS_FROM,
    "pause is not stored": PAUSING_SEEDS_FROM,
    "unknown commit taken for failed": OUTCOME_SEEDS_FROM,
    "unknown commit taken for kept": OUTCOME_SEEDS_FROM,
    "renewed lease ends too soon": 171,
    **dict.fromkeys(plantednative.FLOW_BUGS, FLOW_SEEDS_FROM),
    **dict.fromkeys(plantedoverseen.BUGS, OVERSEEN_SEEDS_FROM),
    **dict.fromkeys(plantedlimits.BUGS, LIMITS_SEEDS_FROM),
    **dict.fromkeys(plantedresources.BUGS, RESOURCES_SEEDS_FROM),
    "touch does not renew": 351,
    **dict.fromkeys(plantedcluster.BUGS, CLUSTER_SEEDS_FROM),
    "cluster: fenced commit taken for kept": CLUSTER_SEEDS_FROM + 280,
    "cluster: take-over from a hall that beats again": CLUSTER_SEEDS_FROM + 560,
    "cluster: lease too long": CLUSTER_SEEDS_FROM + 600,
    "cluster: beat counts from its answer on": CLUSTER_SEEDS_FROM + 785,
    "parents not looked up in the history": 10,
    "Complete by another location": 25,
    "silent worker stays ready": 13,
    "whole herd woken": 15,
    "READY remembered twice": 55,
    "job given for ever": 83,
    "result told before commit": 19,
    "quick job counts as incomplete": 14,
    "worker_disconnect keeps the task": 24,
    "loss before PERFORMING": 16,
    "provider gone, its workers stay": 32,
    "lease of another worker accepted": 330,
    "failure retried against the worker's word": 69,
    "retry from the history does nothing": OVERSEEN_SEEDS_FROM + 29,
    "throttle window forgotten at restart": LIMITS_SEEDS_FROM + 6,
    "needs lost at restart": RESOURCES_SEEDS_FROM + 8,
    "cluster: no fence": CLUSTER_SEEDS_FROM + 40,
    "Create that joins makes nothing lasting": 23,
    "further parents ignored": 23,
    "late result dropped": 18,
    "who declines is asked at once": 15,
    "history not asked": 14,
    "two tasks for one worker": 114,
    "clients join a provider's job": 31,
    "promise stored as an attempt": 17,
    "UUID of another connection": 56,
    "retry from the history makes a second job": OVERSEEN_SEEDS_FROM + 107,
    "weight ignored": LIMITS_SEEDS_FROM + 8,
    "cluster: given up connection writes": CLUSTER_SEEDS_FROM + 40,
    "cluster: database away counts as silence": CLUSTER_SEEDS_FROM + 46,
    "cluster: beat that is not seen counts": CLUSTER_SEEDS_FROM + 354,
}
"""Where the search begins for a bug that few worlds show: a little before the seed that showed it when this was
written; elsewhere at 0. The search goes on if another seed shows it now.
"""


class Find(NamedTuple):
    """Where a bug was found."""

    seed: int
    law: str


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing where something must be done."""


# --- promises


def _replace_nothing(session: Any, withdrawn: Any, refusal: Any, scheduler: Any) -> None:
    session.pledges = None


def _flush_out_of_order(self: Engine, *, coalesce: bool = False) -> None:
    for session in self.outbox:
        if session.pledges is None and session.sealed is not None and session.link is not None:
            session.link.write(session.out)
            session.out.clear()
    self.outbox[:] = [session for session in self.outbox if session.out]
    _ENGINE_END(self, coalesce=coalesce)


def _wait_for_every_end(self: GroupCommit, waiting: list[Session], now_us: int) -> int:
    """A commit waits until the calls have ended, however long they take."""
    for session in waiting:
        for pledge in session.pledges or ():
            if pledge.job is not None and pledge.job.lease is not None:
                return now_us + pledge.job.terms.run_us + SECOND
    return _WAIT_UNTIL(self, waiting, now_us)


def _commit_twice(self: Engine, *, coalesce: bool = False) -> None:
    self._batch = None
    _ENGINE_END(self, coalesce=coalesce)


def _take_for_failed(self: Engine, trouble: str) -> None:
    self.failed(trouble)


def _take_for_kept(self: Engine, trouble: str) -> None:
    del trouble
    self.committed()


def _reopen_nothing(self: Ledger, batch: Any) -> list[Any]:
    return [job for job in batch.inserted if not job.logged]


def _note_no_end(self: Ledger, job: Any) -> None:
    if job.state < DONE or not job.stored:
        _NOTE(self, job)


# --- leases


def _lease_of_anybody(self: Leases, worker: Any, job_id: int) -> Any:
    job = self._table.jobs.get(job_id)
    if job is None or job.lease is None:
        raise self.stale()
    return job.lease


def _lose_uncounted(self: Leases, lease: Any, code: int = LOST, reason: bytes = b"") -> None:
    self.give_back(lease, code, front=code == LOST)


def _give_back_behind(self: Leases, lease: Any, code: int, *, front: bool = True, delay_us: int = 0) -> None:
    _GIVE_BACK(self, lease, code, front=False, delay_us=delay_us)


def _give_back_nowhere(self: Leases, lease: Any, code: int, *, front: bool = True, delay_us: int = 0) -> None:
    self._table._end_lease(lease.job)
    lease.job.state = QUEUED


def _arm_run_only(self: Leases, lease: Any) -> None:
    if lease.run_until_us:
        self._table.timers.arm(lease, lease.run_until_us)


def _arm_silence_only(self: Wakeups, worker: Any) -> None:
    waking, worker.waking = worker.waking, None
    _ARM_WORKER(self, worker)
    worker.waking = waking


def _sleep_unseen(self: Wakeups, worker: Any) -> None:
    if worker.waking is not None:
        self.answer(worker)
    worker.asleep = True
    for queue in worker.abilities:
        queue.sleepers[worker] = None


def _answer_wake_unseen(self: Wakeups, worker: Any) -> None:
    queue = worker.waking
    worker.waking = None
    queue.waking -= 1


def _fail_at_once(self: Leases, lease: Any, code: int = 1, data: bytes = b"", *, retry: bool = True) -> None:
    _FAIL(self, lease, code, data, retry=retry)
    if lease.job.state == DELAYED:
        self._table.timers.arm(lease.job, self._table.now_us + 1)


# --- jobs


def _join_unwatched(self: Submissions, job: Any, spec: Any, watcher: Any) -> None:
    _JOIN(self, job, spec, None)


def _end_with_key(self: JobTable, job: Any, state: int, code: int, result: bytes, ended_us: int = 0) -> None:
    _END(self, job, state, code, result, ended_us)
    if job.key:
        self.keys.add(job)


def _unwatch_only(self: Watchers, job: Any, peer: Any) -> None:
    if job in peer.watching:
        del peer.watching[job]
        job.watchers = [other for other in job.watchers if other is not peer] or None


def _submit_now(self: Submissions, spec: Any, watcher: Any) -> Any:
    spec.due_us = 0
    return _SUBMIT(self, spec, watcher)


def _unlink_twice(self: Graph, child: Any, parent: Any) -> bool:
    last = _UNLINK(self, child, parent)
    if not last and parent.state == DONE:
        self.detach(child)
        return True
    return last


def _tell_children_all_is_well(self: Dependencies, parent: Any) -> None:
    for child in list(parent.children.values()):
        if child.terms.on_parent_failure != HOLD and self._graph.unlink(child, parent):
            self.release_child(child)
            self._table.note(child)


def _push_in_front(self: Lane, job: Any) -> None:
    self.push_front(job)


def _best_of_the_last(self: Queue, worker: Worker, now_us: int) -> Any:
    del worker, now_us
    for lane in reversed(self.lanes):
        if lane.ready:
            return lane.head()
    return None


def _remove_only_what_is_taken(self: Queue, job: Any) -> None:
    if job.state == LEASED:
        _REMOVE(self, job)


def _head_with_ghosts(self: Lane) -> Any:
    return self._first


# --- the store and the next boot


def _load_same_epoch(self: MemoryStore, ended_max: int) -> Any:
    self._epoch = 0
    return _LOAD(self, ended_max)


def _restore_without(state: int) -> Callable[..., None]:
    def restore(scheduler: Scheduler, loaded: Any) -> None:
        _RESTORE(scheduler, loaded._replace(jobs=[row for row in loaded.jobs if row.state != state]))

    return restore


def _restore_parentless(scheduler: Scheduler, loaded: Any) -> None:
    rows = [row._replace(state=QUEUED) if row.state == HELD else row for row in loaded.jobs]
    _RESTORE(scheduler, loaded._replace(jobs=rows))


_WAIT_UNTIL = GroupCommit.wait_until_us
_ENGINE_END = Engine.end
_NOTE = Ledger.note
_GIVE_BACK = Leases.give_back
_MATCH = Matching.match
_FAIL = Leases.fail
_ARM_WORKER = Wakeups.arm
_JOIN = Submissions._join
_END = JobTable.end
_SUBMIT = Submissions.submit
_UNLINK = Graph.unlink
_LOAD = MemoryStore.load
_REMOVE = Queue.remove
_RESTORE = restoring.restore


def _match_though_paused(self: Matching, queue: Queue) -> None:
    queue.closed, closed = False, queue.closed
    _MATCH(self, queue)
    queue.closed = closed


BUGS: Final[dict[str, tuple[Any, str, Any]]] = {
    "promise before commit": (Session, "_pledge", _nothing),
    "failed commit still acknowledges": (output, "replace_withdrawn", _replace_nothing),
    "failed commit is not tried again": (Ledger, "reopen", _reopen_nothing),
    "unknown commit taken for failed": (Engine, "unknown", _take_for_failed),
    "unknown commit taken for kept": (Engine, "unknown", _take_for_kept),
    "two commits under way": (Engine, "end", _commit_twice),
    "messages out of order": (Engine, "end", _flush_out_of_order),
    "end not written": (Ledger, "note", _note_no_end),
    "no fencing": (Leases, "find_lease", _lease_of_anybody),
    "paused queue is matched": (Matching, "match", _match_though_paused),
    "pause is not stored": (Ledger, "note_paused", _nothing),
    "losses not counted": (Leases, "count_loss", _lose_uncounted),
    "lost job goes to the back": (Leases, "give_back", _give_back_behind),
    "lost job goes nowhere": (Leases, "give_back", _give_back_nowhere),
    "lease never lapses": (Leases, "_arm", _arm_run_only),
    "signs of life do not count": (Workforce, "beat", _nothing),
    "timer not cancelled": (Timers, "disarm", _nothing),
    "wake-up lost": (Wakeups, "fall_asleep", _sleep_unseen),
    "wake-up answered, others sleep on": (Wakeups, "answer", _answer_wake_unseen),
    "wake-up not guarded": (Wakeups, "arm", _arm_silence_only),
    "backoff ignored": (Leases, "fail", _fail_at_once),
    "due time ignored": (Submissions, "submit", _submit_now),
    "joined watcher forgotten": (Submissions, "_join", _join_unwatched),
    "commit waits for the end of every call": (GroupCommit, "wait_until_us", _wait_for_every_end),
    "key not freed": (JobTable, "end", _end_with_key),
    "abandoned job not dropped": (Watchers, "unwatch", _unwatch_only),
    "parent counted twice": (Graph, "unlink", _unlink_twice),
    "failed parent counts as met": (Dependencies, "parent_ended", _tell_children_all_is_well),
    "last in, first out": (Lane, "push", _push_in_front),
    "priority upside down": (Queue, "best", _best_of_the_last),
    "cancelled job handed out": (Lane, "head", _head_with_ghosts),
    "cancelled job still counted": (Queue, "remove", _remove_only_what_is_taken),
    "epoch not bumped": (MemoryStore, "load", _load_same_epoch),
    "parents not looked up in the history": (ParentLookups, "add", _nothing),
    "recovery forgets delayed jobs": (restoring, "restore", _restore_without(DELAYED)),
    "recovery forgets held jobs": (restoring, "restore", _restore_without(HELD)),
    "recovery forgets parents": (restoring, "restore", _restore_parentless),
    **plantedzmq.BUGS,
    **planteddraft.BUGS,
    **plantedhire.BUGS,
    **plantednative.BUGS,
    **plantedbean.BUGS,
    **plantedoverseen.BUGS,
    **plantedlimits.BUGS,
    **plantedresources.BUGS,
    **plantedcluster.BUGS,
}
"""What is planted: where, in which method, and what stands there instead."""


def plain() -> bool:
    """The sources run as they are."""
    return Path(scheduler_module.__file__).suffix == ".py"


def _plays(bug: str, seed: int) -> bool:
    """The seed has those who could meet the bug."""
    if bug in plantednative.BUGS or bug in plantedoverseen.BUGS:
        return speaks_natively(seed)
    return bug not in plantedbean.BUGS or speaks_of_beans(seed)


def seeds_max(bug: str) -> int:
    """Within how many seeds it must be found."""
    return CLUSTER_SEEDS_MAX if bug in plantedcluster.BUGS else SEEDS_MAX


def find(bug: str, *, audited: bool = True, found: int | None = None) -> Find | None:
    """Plant a bug and run seeds until a law breaks, or only the seed at which it was found before."""
    owner, name, wrong = BUGS[bug]
    first = FIRST_SEEDS.get(bug, 0)
    with patch.object(owner, name, wrong):
        for seed in range(first, first + seeds_max(bug)) if found is None else (found,):
            if not _plays(bug, seed):
                continue
            try:
                run_of(seed, audited=audited).play()
            except Violation as violation:
                return Find(seed, violation.law)
            except (AttributeError, TypeError):
                raise  # what was planted does not fit the hall any more
            except Exception as error:  # noqa: BLE001 (a bug may break anything)
                return Find(seed, type(error).__name__)
    return None
