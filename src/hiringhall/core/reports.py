"""Reports: tasks that run outside the hall, which is told when they start and when they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import BAD_REQUEST, WRONG_STATE, Refusal
from hiringhall.core.residents import OUTSIDE
from hiringhall.core.states import DONE, FAILED, LEASED, SUCCESS

if TYPE_CHECKING:
    from hiringhall.core.depending import Dependencies
    from hiringhall.core.jobs import Job, JobSpec
    from hiringhall.core.leasing import Leases
    from hiringhall.core.residents import Residents
    from hiringhall.core.table import JobTable

REPORTED: Final = "reported"
"""The extra that marks a task that runs outside the hall."""


class Reports:
    """The verbs of peers that report a task."""

    def __init__(
        self, table: JobTable, dependencies: Dependencies, leases: Leases, residents: Residents
    ) -> None:
        self._table = table
        self._dependencies = dependencies
        self._leases = leases
        self._residents = residents

    def start(self, spec: JobSpec, who: bytes, started_us: int) -> Job:
        """A task has begun outside the hall: a durable job that a resident holds from the start."""
        terms = spec.terms
        if not spec.key or not terms.durable or terms.lease_us or terms.run_us:
            raise Refusal(BAD_REQUEST, "a reported task must have a key, be durable, and have no timeout")
        self._table.check_key(spec.key)
        self._table.check_store()
        self._table.check_room()
        queue = self._table.queue(spec.queue)
        if self._table.keys.find(queue, spec.key) is not None:
            raise Refusal(WRONG_STATE, "a job with this queue and key is already live")
        worker = self._residents.ensure(spec.queue, OUTSIDE)
        if not 0 < started_us < self._table.now_us:
            started_us = self._table.now_us
        job = self._table.admit(spec, queue, started_us)
        self._table.move(job, LEASED)
        job.attempts = 1
        job.started_us = started_us
        job.worker_name = who
        job.extras = {**(spec.extras or {}), REPORTED: b""}
        self._leases.attach(job, worker, 0)
        self._table.graph.adopt(job)
        self._table.ledger.note(job)
        return job

    def end(self, job: Job, ended_us: int, code: int, result: bytes) -> None:
        """A task whose start was reported has ended outside the hall."""
        lease = job.lease
        if lease is None or lease.worker.resident is None or lease.worker.name != OUTSIDE:
            raise Refusal(WRONG_STATE, "this job is for workers of the hall; only a worker can end it")
        if not job.terms.durable:
            # The store failed at its start: the job lives on in memory, and its end is stored all the same.
            self._table.check_store()
            job.terms_before = job.terms
            job.terms = job.terms.replace(durable=True, detached=True)
        if not job.started_us <= ended_us < self._table.now_us:
            ended_us = self._table.now_us
        self._table.end(job, DONE if code == SUCCESS else FAILED, code, result, ended_us)
        if job.state != DONE and ended_us < self._table.now_us:
            # Another job of that name may have ended later and succeeded.
            self._dependencies.look_for_successor(job)
