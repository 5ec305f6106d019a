"""Submitting: new jobs, jobs that a submit joins, and submits that are undone.

Invariant: a verb checks everything that it may refuse before it changes anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import BAD_REQUEST, CLOSING, QUEUE_FULL, TOO_LARGE, WRONG_STATE, Refusal
from hiringhall.core.graph import known_jobs, name_of
from hiringhall.core.jobs import RESOURCES, Job
from hiringhall.core.resources.resourcing import ResourceTerms
from hiringhall.core.rules.debouncing import Replacements
from hiringhall.core.rules.queue_rules import LIMIT_KEY, TENANT
from hiringhall.core.rules.spacing import DEBOUNCED, check_spacing, is_debounced
from hiringhall.core.states import (
    DELAYED,
    DONE,
    HELD,
    QUEUED,
    WITHDRAWN,
)
from hiringhall.core.terms import NO_REQUIREMENT

if TYPE_CHECKING:
    from hiringhall.core.depending import Dependencies
    from hiringhall.core.jobs import JobSpec, ParentRef
    from hiringhall.core.needs import Needs
    from hiringhall.core.peer import Peer
    from hiringhall.core.queues import Queue
    from hiringhall.core.rules.debouncing import Content
    from hiringhall.core.rules.spacing import Spacing
    from hiringhall.core.rules.throttling import ThrottleWindows
    from hiringhall.core.table import JobTable
    from hiringhall.core.terms import Requirement, Terms
    from hiringhall.core.watching import Watchers

DUE_US_MAX: Final = 1 << 62
"""The latest due time: what is added to it still fits into the 63 bits that stores keep."""
FILLED_MAX: Final = 1000
"""Cached terms with what a queue's settings add to them."""


class Submissions:
    """The submitting verbs."""

    def __init__(
        self,
        table: JobTable,
        dependencies: Dependencies,
        needs: Needs,
        windows: ThrottleWindows,
        watchers: Watchers,
    ) -> None:
        self._table = table
        self._watchers = watchers
        self._dependencies = dependencies
        self._needs = needs
        self._windows = windows
        self.replacements = Replacements(table)
        self._filled: dict[tuple[Requirement, int, Terms], Terms] = {}
        self._resourced = ResourceTerms()

    def submit(self, spec: JobSpec, watcher: Peer | None) -> Job:
        """Take a job in, or join a live one with the same queue and key. If both are debounced, the live one is
        replaced, unless it has started.
        """
        table = self._table
        limits = table.limits
        if watcher is None and not spec.terms.detached:
            raise Refusal(BAD_REQUEST, "a job without a watcher must be detached")
        self.check_payload(spec)
        if spec.terms.durable:
            table.check_store()
        elif table.closing:
            raise Refusal(CLOSING, "the hall is closing; submit to another hall, or submit a durable job")
        queue = table.queues.get(spec.queue)
        if queue is None:
            queue = table.queue(spec.queue)
        key = spec.key
        if spec.flow:
            table.flows.check(spec.flow, spec.terms.durable)
        if spec.extras is not None:
            table.check_key(spec.extras.get(LIMIT_KEY, b""))
            table.check_key(spec.extras.get(TENANT, b""))
            if RESOURCES in spec.extras:
                self._resourced.of(spec.terms, spec.extras[RESOURCES])  # refuses what is not an amount
        spacing = spec.spacing
        if spacing is not None:
            check_spacing(spec, spacing)
        if key:
            table.check_key(key)
            job = table.keys.find(queue, key)
            if job is not None:
                if spacing is not None and spacing.debounce_us and is_debounced(job):
                    self._replace(job, spec, spacing, watcher)
                else:
                    self._join(job, spec, watcher)
                return job
        table.check_room()
        if spacing is not None and spacing.throttle_us:
            self._check_window(queue.name, key)
        if spec.due_us and spec.due_us > DUE_US_MAX:  # compiled, such a large integer is compared by a call
            raise Refusal(BAD_REQUEST, "the due time is too far in the future")
        maximum = queue.maxima[spec.terms.priority]
        if 0 <= maximum <= queue.live:
            raise Refusal(QUEUE_FULL, f"the queue holds {maximum} jobs, its length limit (maxqueue)")
        parents: list[Job | ParentRef] | None = None
        if spec.parents:
            name = (queue.name, key) if key else None
            parents = self._dependencies.resolve(spec.parents, name, spec.terms)
            if name is not None:
                waiting = table.graph.expected.get(name)
                table.graph.refuse_cycle(waiting, known_jobs(parents), limits.graph_walk_max)

        # Nothing below refuses.
        job = table.admit(spec, queue, table.now_us)
        if queue.limiter is not None or (self._needs.by_queue and job.terms.requirement is None):
            job.terms = self._with_defaults(job.terms, queue)
        if spec.extras is not None and RESOURCES in spec.extras:
            job.terms = self._resourced.of(job.terms, spec.extras[RESOURCES])
        if watcher is not None:
            self._watchers.watch(job, watcher)
        table.graph.adopt(job)
        if parents is not None:
            self._dependencies.hold(job, parents)
        if spacing is not None:
            self._space(job, spacing)
        if job.parents is not None:
            table.move(job, HELD)
            job.due_us = spec.due_us
        elif spacing is not None and spacing.debounce_us:
            table.move(job, DELAYED, due_us=table.now_us + spacing.debounce_us)
        elif spec.due_us > table.now_us:
            table.move(job, DELAYED, due_us=spec.due_us)
        else:
            table.move(job, QUEUED)
        if spec.terms.durable:
            table.ledger.note(job)
        return job

    def check_payload(self, spec: JobSpec) -> None:
        """Refuse a payload that is too long."""
        most = self._table.limits.payload_bytes_max
        if len(spec.payload) > most:
            raise Refusal(TOO_LARGE, f"a payload may have {most} bytes (payload_bytes_max)")

    # --- debounce and throttle

    def _check_window(self, queue: bytes, key: bytes) -> None:
        first = self._windows.find(queue, key)
        if first:
            raise Refusal(WRONG_STATE, f"the key is throttled: job {first} answers for it")
        self._windows.check_room()

    def _space(self, job: Job, spacing: Spacing) -> None:
        """Open the window of a throttled job, or mark the job as debounced."""
        if spacing.throttle_us:
            if not job.terms.detached:
                # It answers for later submits, too.
                job.terms = job.terms.replace(detached=True)
            self._windows.open(job, self._table.now_us + spacing.throttle_us)
        else:
            self._table.keep_extra(job, DEBOUNCED, b"%d" % spacing.debounce_us)

    def _replace(self, job: Job, spec: JobSpec, spacing: Spacing, watcher: Peer | None) -> None:
        """The latest submit wins. As with any join, the job stays durable and detached if it was."""
        if watcher is not None:
            self._watchers.watch(job, watcher)
        before, after = job.terms, spec.terms
        if (before.durable and not after.durable) or (before.detached and not after.detached):
            after = after.replace(durable=before.durable or after.durable, detached=True)
        self.replacements.replace(job, spec, spacing, self.fill_terms(spec, after, job.queue))
        self._table.counters.joined += 1

    def _join(self, job: Job, spec: JobSpec, watcher: Peer | None) -> None:
        """The live job gets the watcher, and becomes durable, detached or logged if the submit says so."""
        if watcher is not None:
            self._watchers.watch(job, watcher)
        terms = spec.terms
        if (
            (terms.durable and not job.terms.durable)
            or (terms.detached and not job.terms.detached)
            or (terms.logged and not job.terms.logged)
        ):
            if not job.terms.durable and terms.durable:
                job.terms_before = job.terms
            job.terms = job.terms.replace(
                durable=job.terms.durable or terms.durable,
                detached=job.terms.detached or terms.detached,
                logged=job.terms.logged or terms.logged,
            )
            if job.terms.durable:
                self._table.ledger.note(job)
                self._windows.note(job)
        self._table.counters.joined += 1

    def fill_terms(self, spec: JobSpec, terms: Terms, queue: Queue) -> Terms:
        """Terms for a job of this spec, with the defaults of its queue and the resources that it needs."""
        terms = self._with_defaults(terms, queue)
        if spec.extras is not None and RESOURCES in spec.extras:
            terms = self._resourced.of(terms, spec.extras[RESOURCES])
        return terms

    def _with_defaults(self, terms: Terms, queue: Queue) -> Terms:
        """The same terms with the queue's default requirement and maximum age, if they state none; jobs with
        the same terms share them.
        """
        requirement = self._needs.by_queue.get(queue.name) if terms.requirement is None else None
        limiter = queue.limiter
        age_max_us = limiter.rules.age_max_us if limiter is not None and not terms.expire_us else 0
        if requirement is None and not age_max_us:
            return terms
        key = (requirement or NO_REQUIREMENT, age_max_us, terms)
        filled = self._filled.get(key)
        if filled is None:
            if len(self._filled) >= FILLED_MAX:
                self._filled.clear()
            changes = {"expire_us": age_max_us} if age_max_us else {}
            if requirement is not None:
                changes["skill"], changes["takes_us"], _ = requirement
            filled = self._filled[key] = terms.replace(**changes)
        return filled

    def take_back(self, job: Job) -> None:
        """Undo a submit of this turn that was not acknowledged yet, because it is refused after all."""
        self.withdraw(job)
        if job.children is not None:
            self._table.graph.forget(job)
            if not self._table.archive.complete:
                # Its children may have asked the history for the name before the job came.
                self._table.graph.parent_lookups.add(name_of(job))
        self._table.cancel_as(job, WITHDRAWN, b"it was refused together with another")

    def leave_join(self, job: Job, content: Content) -> None:
        """Undo a join of this turn: the job is as it was before. No commit may have begun since."""
        if job.payload is not content.payload or job.extras is not content.extras:
            self.replacements.undo(job, content)
            return
        terms = content.terms
        if job.terms is terms:
            return
        if job.terms.durable and not terms.durable:
            self._table.ledger.forget(job)
            job.terms_before = None
        job.terms = terms

    def withdraw(self, job: Job) -> None:
        """Make a job non-durable that was never acknowledged as durable."""
        self._table.ledger.forget(job)
        if len(self._windows):
            self._windows.withdraw(job)
        self._table.counters.withdrawn += 1
        if job.flow is not None:
            self._table.flows.leave(job, self._table.now_us)
        before, after = job.terms_before, job.terms
        job.terms_before = None
        if before is None:
            job.terms = after.replace(durable=False, detached=False, logged=False)
        elif (before.priority, before.requirement) == (after.priority, after.requirement):
            job.terms = before
        else:  # It is in the lane of its new terms: only what made it durable is undone.
            job.terms = after.replace(durable=before.durable, detached=before.detached, logged=before.logged)

    def withdraw_all(self, unstored: list[Job]) -> dict[int, Job]:
        """The store failed before these jobs were on disk."""
        withdrawn: dict[int, Job] = {}
        for job in unstored:
            if job.id in withdrawn:
                continue
            withdrawn[job.id] = job
            self.withdraw(job)
            if job.state >= DONE:
                self._table.archive.discard(job)
                if job.key:
                    # An earlier job of its name may be in the history: the name is looked up there.
                    self._table.archive.complete = False
        return withdrawn

    def drop_withdrawn(self, withdrawn: dict[int, Job]) -> None:
        """After the submitters were refused: cancel the jobs without another watcher, keep the rest in
        memory.
        """
        for job in withdrawn.values():
            if job.state < DONE and job.abandoned:
                if job.key:
                    self._table.graph.forget(job)
                else:
                    self._dependencies.free_stored_children(job)
                self._table.cancel_as(job, WITHDRAWN, b"the store failed before the job was acknowledged")
