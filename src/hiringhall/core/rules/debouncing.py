"""Debounced jobs that are submitted again before they start: the latest submit wins.

Invariant: a replacement that is acknowledged is on disk, with its payload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.rules.queue_rules import LIMIT_KEY, TENANT
from hiringhall.core.rules.spacing import DEBOUNCED
from hiringhall.core.states import DELAYED, QUEUED
from hiringhall.core.timers import NEVER

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job, JobSpec
    from hiringhall.core.rules.spacing import Spacing
    from hiringhall.core.table import JobTable
    from hiringhall.core.terms import Terms


class Content:
    """What a further submit replaces of a debounced job."""

    __slots__ = ("due_us", "extras", "payload", "terms")

    def __init__(self, payload: bytes, terms: Terms, extras: dict[str, bytes] | None, due_us: int) -> None:
        self.payload = payload
        self.terms = terms
        self.extras = extras
        self.due_us = due_us
        """In the past: it is ready."""


def content_of(job: Job) -> Content:
    """What a job is now, so that a replacement can be undone."""
    return Content(job.payload, job.terms, job.extras, job.due_us if job.state < QUEUED else NEVER)


class Replacements:
    """Replaces what a debounced job is, and undoes it."""

    def __init__(self, table: JobTable) -> None:
        self._table = table

    def replace(self, job: Job, spec: JobSpec, spacing: Spacing, terms: Terms) -> None:
        """Payload and terms are those of a further submit, and the wait starts anew."""
        due_us = self._table.now_us + spacing.debounce_us
        if spacing.debounce_max_us:
            due_us = min(due_us, job.created_us + spacing.debounce_max_us)
        if terms.durable and not job.terms.durable:
            job.terms_before = job.terms
        extras = {**(spec.extras or {}), DEBOUNCED: b"%d" % spacing.debounce_us}
        self._write(job, Content(spec.payload, terms, extras, due_us))

    def undo(self, job: Job, before: Content) -> None:
        """Undo a replacement of this turn. No commit may have begun since."""
        if job.terms.durable and not before.terms.durable:
            self._table.ledger.forget(job)
            job.terms_before = None
        self._write(job, before)

    def _write(self, job: Job, content: Content) -> None:
        table = self._table
        if content.due_us <= table.now_us and job.state == QUEUED and _keeps_its_place(job, content):
            self._write_in_place(job, content)
            return
        table.postpone(job, max(content.due_us, table.now_us + 1))
        before, after = job.terms, content.terms
        if (before.priority, before.requirement) == (after.priority, after.requirement):
            job.terms = after  # It keeps its place in the lane, if it was ready before.
        else:
            job.queue.change_terms(job, after)
        job.payload = content.payload
        job.extras = content.extras
        if content.due_us <= table.now_us and job.state == DELAYED:
            table.move(job, QUEUED)
        if job.terms.durable:
            table.ledger.note_payload(job)

    def _write_in_place(self, job: Job, content: Content) -> None:
        """The job is ready and has waited for as long as it may: others do not go before it because of this."""
        table = self._table
        if job.terms.expire_us != content.terms.expire_us:
            table.timers.disarm(job)
            if content.terms.expire_us:
                table.timers.arm(job, job.queued_us + content.terms.expire_us)
        job.terms = content.terms
        job.payload = content.payload
        job.extras = content.extras
        if job.terms.durable:
            table.ledger.note_payload(job)


def _keeps_its_place(job: Job, content: Content) -> bool:
    """Whether it waits for the same workers, in the same lane, and counts for the same key and tenant."""
    before, after = job.terms, content.terms
    if (before.priority, before.requirement) != (after.priority, after.requirement):
        return False
    old, new = job.extras or {}, content.extras or {}
    return all(old.get(name, b"") == new.get(name, b"") for name in (LIMIT_KEY, TENANT))
