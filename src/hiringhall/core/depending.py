"""Dependencies: which parents of a job are met, and what happens to its children when it ends.

Invariants: only a parent that neither memory nor the history knows is waited for by name; an edge that would
close a cycle is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.errors import BAD_REQUEST, TOO_LARGE, WRONG_STATE, Refusal
from hiringhall.core.graph import Plan, known_jobs, name_of
from hiringhall.core.jobs import Job, is_named
from hiringhall.core.restoring import recorded_job
from hiringhall.core.states import DELAYED, DONE, FAILED, HELD, LEASED, PARENT_FAILED, QUEUED, STATE_NAMES
from hiringhall.core.terms import FAIL_WITH_PARENT, HOLD, RUN_ANYWAY

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow
    from hiringhall.core.jobs import ParentRef
    from hiringhall.core.table import JobTable
    from hiringhall.core.terms import Terms


class Dependencies:
    """The verbs that add parents, and what follows when a parent ends."""

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self._graph = table.graph
        self.to_fail: list[Job] = []
        """Jobs that fail because a parent failed; a list, so that a long chain causes no deep recursion."""

    def depend(self, job: Job, parents: tuple[ParentRef, ...]) -> None:
        """Add parents to a job. If a worker has the job, they must all be met already."""
        plan = Plan()
        self.plan(plan, job, parents)
        self.carry_out(plan)

    def plan(
        self, plan: Plan, job: Job, parents: tuple[ParentRef, ...], *, returned: bool = False
    ) -> list[Job | ParentRef]:
        """Plan further parents for a job; returns those that are not met. A job that a worker has can wait for
        none, unless it is `returned` first. Changes nothing yet.
        """
        if job.terms.durable:
            self._table.check_store()
        name = (job.queue.name, job.key) if job.key else None
        known = plan.count(job) + (len(job.parents) if job.parents is not None else 0)
        found = self.resolve(parents, name, job.terms, known)
        self._graph.refuse_cycle({job.id: job}, known_jobs(found), self._table.limits.graph_walk_max, plan)
        if job.state >= DONE or (found and job.state == LEASED and not returned):
            raise Refusal(
                WRONG_STATE, f"it is already {STATE_NAMES[job.state]}, and cannot wait for more parents"
            )
        plan.add(job, found)
        return found

    def carry_out(self, plan: Plan) -> None:
        """Add all planned edges. Nothing may have changed since, except what the plan was made for."""
        for job, parents in plan.edges:
            # A job may have ended when it was given back.
            if parents and job.state < LEASED:
                self._wait_for(job, parents)
            if job.flow is not None and job.state < DONE:
                self._keep_parents(job, parents)

    def resolve(
        self, refs: tuple[ParentRef, ...], name: ParentRef | None, terms: Terms, known: int = 0
    ) -> list[Job | ParentRef]:
        """The parents that are not met: known jobs, or names. Changes nothing."""
        limits = self._table.limits
        if known + len(refs) > limits.parents_max:
            raise Refusal(TOO_LARGE, f"a job may have {limits.parents_max} parents (parents_max)")
        found: list[Job | ParentRef] = []
        for ref in refs:
            if isinstance(ref, int):
                job = self._table.jobs.get(ref) or self._table.archive.find(ref)
                if job is None and (self._table.archive.complete or not 0 < ref <= self._table.last_id):
                    raise Refusal(BAD_REQUEST, f"the parent, job {ref}, is not known")
            else:
                if ref == name:
                    raise Refusal(BAD_REQUEST, "a job cannot be its own parent")
                if (
                    not 0 < len(ref[0]) <= limits.queue_name_bytes_max
                    or not 0 < len(ref[1]) <= limits.key_bytes_max
                ):
                    raise Refusal(BAD_REQUEST, "the queue or the key of a parent is empty or too long")
                job = self._table.find_key(ref[0], ref[1]) or self._table.archive.find_key(ref[0], ref[1])
            if job is not None and job.state > DONE and terms.on_parent_failure == HOLD and job.named:
                # It waits for the job that has the failed parent's name now, or had it later and succeeded.
                if (job.queue.name, job.key) == name:
                    raise Refusal(BAD_REQUEST, "a job cannot wait for its own name")
                name_there = (job.queue.name, job.key)
                job = self._table.find_key(*name_there) or self._table.archive.find_key(*name_there) or job
            if job is None:
                found.append(ref)
            elif job.state < DONE or (job.state > DONE and terms.on_parent_failure != RUN_ANYWAY):
                found.append(job)
        return found

    def hold(self, job: Job, parents: list[Job | ParentRef]) -> None:
        """Add the edges of a job to parents that are not met. It is HELD if `parents` is set after this."""
        policy = job.terms.on_parent_failure
        for parent in parents:
            if isinstance(parent, int) and self._graph.parent_lookups.is_unknown(parent):
                # The history answered in this turn, and the jobs that asked have not failed yet.
                if policy != RUN_ANYWAY:
                    self._graph.expect(job, parent)
                    self.to_fail.append(job)
            elif not isinstance(parent, Job):
                self.expect(job, parent)
            elif parent.state < DONE:
                self._graph.link(job, parent)
            elif policy == HOLD and parent.named:
                self.expect(job, name_of(parent))
            elif policy == HOLD:
                self._graph.expect(job, parent.id)
            elif policy == FAIL_WITH_PARENT:
                self._graph.link(job, parent)
                self.to_fail.append(job)

    def expect(self, child: Job, ref: ParentRef) -> None:
        """`child` waits for a job that is not in memory: it may be in the history, or come later."""
        self._graph.expect(child, ref)
        if not self._table.archive.complete:
            self._graph.parent_lookups.add(ref)

    def _wait_for(self, job: Job, parents: list[Job | ParentRef]) -> None:
        self.hold(job, parents)
        if job.parents is None:
            return
        if job.state != HELD:
            self._table.move(job, HELD)
            job.ready_us = 0
        self._table.note(job)

    def _keep_parents(self, job: Job, parents: list[Job | ParentRef]) -> None:
        """A job of a flow keeps all its parents, so that the flow can be drawn."""
        refs = [parent.id if isinstance(parent, Job) else parent for parent in parents]
        job.all_parents = tuple(dict.fromkeys([*job.all_parents, *refs]))
        self._table.note(job)

    def parent_ended(self, parent: Job) -> None:
        """A job has ended: its children react, each as its policy says."""
        assert parent.children is not None
        for child in list(parent.children.values()):
            policy = child.terms.on_parent_failure
            if parent.state != DONE and policy == HOLD:
                self._graph.wait_for_name(child, parent)
                self._table.note(child)
                continue
            if parent.state != DONE and policy == FAIL_WITH_PARENT:
                self.to_fail.append(child)
                continue
            last = self._graph.unlink(child, parent)
            if child.terms.durable:
                self._table.ledger.note(child)
            if last:
                self.release_child(child)

    def release_child(self, child: Job) -> None:
        """The last parent of a job was met: it is ready, or delayed if its due time is later."""
        child.ready_us = self._table.now_us
        if child.due_us > self._table.now_us:
            self._table.move(child, DELAYED, due_us=child.due_us)
        else:
            self._table.move(child, QUEUED)

    def _has_failed_parent(self, child: Job) -> bool:
        """A parent named by id that is neither known nor being looked up counts as failed."""
        for ref, parent in (child.parents or {}).items():
            if parent is not None:
                if parent.state > DONE:
                    return True
            elif isinstance(ref, int) and not self._graph.parent_lookups.pending(ref):
                return True
        return False

    def found_parents(self, refs: list[ParentRef], lines: list[EndRow]) -> None:
        """The history was asked for these parents and returned these rows. A parent that it knows is archived
        as if it had just ended, and its children react to how it ended.
        """
        lookups = self._graph.parent_lookups
        found = rows_by_ref(lines)
        for ref in refs:
            end = found.get(ref)
            if not lookups.answered(ref, end is not None):
                continue
            if end is not None:
                parent = self._table.archive.find(end.id)
                if parent is None:
                    parent = recorded_job(self._table, end)
                    self._table.archive.add(parent)
                self._graph.adopt_as(ref, parent)
                if parent.children is not None:
                    self.parent_ended(parent)
                if isinstance(ref, int) and parent.named:
                    self.look_for_successor(parent)
            elif isinstance(ref, int):
                for child in list(self._graph.expected[ref].values()):
                    self._miss_parent(child, ref)

    def look_for_successor(self, parent: Job) -> None:
        """Children that HOLD for a failed parent wait for a later job of the same name: a live one, an archived
        one, or one in the history.
        """
        queue, key = name = (parent.queue.name, parent.key)
        waiting = self._graph.expected.get(name)
        if waiting is None:
            return
        live = self._table.find_key(queue, key)
        ended = self._table.archive.find_key(queue, key)
        if live is not None:
            for child in list(waiting.values()):
                self._refuse_circle(child, live, parent)
            self._graph.adopt_as(name, live)
        elif ended is not None and ended.state == DONE:
            self._graph.adopt_as(name, ended)
            self.parent_ended(ended)
        else:
            self._graph.parent_lookups.add(name)

    def _refuse_circle(self, child: Job, live: Job, parent: Job) -> None:
        """If the parent had been known, the submit would have been refused as a cycle: now the child fails."""
        try:
            self._graph.refuse_cycle({child.id: child}, [live], self._table.limits.graph_walk_max)
        except Refusal:
            self._graph.give_up(child, (live.queue.name, live.key))
            self._graph.expect(child, parent.id)
            self.to_fail.append(child)

    def _miss_parent(self, child: Job, ref: int) -> None:
        """A parent named by id that the history does not know was only in memory and is gone. It counts as
        failed, also for HOLD, because it cannot be retried.
        """
        if child.terms.on_parent_failure != RUN_ANYWAY:
            self.to_fail.append(child)
            return
        if self._graph.give_up(child, ref):
            self.release_child(child)
        self._table.note(child)

    def free_stored_children(self, parent: Job) -> None:
        """Remove the edges of children that are stored, because their parent was never acknowledged."""
        for child in list((parent.children or {}).values()):
            if child.stored or child.logged:
                if self._graph.unlink(child, parent):
                    self.release_child(child)
                self._table.note(child)

    def restore_edge(self, child: Job, ref: ParentRef) -> None:
        """Add an edge that the store kept."""
        parent = self._table.find_live(ref)
        ended = self._table.archive.find_ref(ref)
        policy = child.terms.on_parent_failure
        if parent is not None:
            self._graph.link(child, parent)
        elif ended is not None and (ended.state == DONE or policy == RUN_ANYWAY):
            return
        elif ended is not None and policy == FAIL_WITH_PARENT:
            self._graph.link(child, ended)
            self.to_fail.append(child)
        elif ended is not None:
            self._graph.expect(child, ref)
        elif not isinstance(ref, int) or not self._table.archive.complete:
            self.expect(child, ref)
        elif policy != RUN_ANYWAY:
            # It was only in memory and was lost with the restart: it counts as failed.
            self._graph.expect(child, ref)
            if policy == FAIL_WITH_PARENT:
                self.to_fail.append(child)

    def fail_children(self) -> None:
        """At the end of a turn, fail the children of failed parents."""
        while self.to_fail:
            child = self.to_fail.pop()
            if child.state == HELD and self._has_failed_parent(child):
                self._table.end(child, FAILED, PARENT_FAILED, b"a parent did not succeed")


def rows_by_ref(lines: list[EndRow]) -> dict[ParentRef, EndRow]:
    """Rows of the history by id, and the latest of each queue and key."""
    found: dict[ParentRef, EndRow] = {}
    for line in lines:
        found[line.id] = line
        if is_named(line.key, line.extras):
            # An older job with this key may have been asked for by id.
            latest = found.get((line.queue, line.key))
            if latest is None or latest.ended_us <= line.ended_us:
                found[line.queue, line.key] = line
    return found
