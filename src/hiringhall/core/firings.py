"""Firings: the progress of each schedule.

Invariant: the job of a schedule and the fact that it has fired are stored together or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hiringhall.core.changes import Batch, Firing
    from hiringhall.core.jobs import Job, JobSpec
    from hiringhall.core.submitting import Submissions
    from hiringhall.core.table import JobTable


class Firings:
    """The verbs of schedules."""

    def __init__(self, table: JobTable, submissions: Submissions) -> None:
        self._table = table
        self._submissions = submissions
        self.by_name: dict[str, Firing] = {}
        """The progress of each schedule, by name."""
        self._stored: dict[str, Firing] = {}
        """The same, as it is on disk."""

    def fire(self, name: str, firing: Firing, spec: JobSpec) -> Job:
        """A schedule is due: submit its job and mark it as fired."""
        job = self._submissions.submit(spec, None)
        self.mark(name, firing)
        return job

    def mark(self, name: str, firing: Firing | None) -> None:
        """Set the progress of a schedule without a job; None: it was removed."""
        if firing is None:
            self.by_name.pop(name, None)
        else:
            self.by_name[name] = firing
        self._table.ledger.note_fired(name, firing)

    def restore(self, fired: Mapping[str, Firing]) -> None:
        """Take over the progress that the store has."""
        self.by_name.update(fired)
        self._stored.update(fired)

    def committed(self, batch: Batch) -> None:
        """The batch is on disk."""
        for name, firing in batch.fired.items():
            if firing is None:
                self._stored.pop(name, None)
            else:
                self._stored[name] = firing

    def withdraw(self, batch: Batch) -> None:
        """The batch is not on disk: go back to the progress that is."""
        for name in self._table.ledger.unfired(batch):
            before = self._stored.get(name)
            if before is None:
                self.by_name.pop(name, None)
            else:
                self.by_name[name] = before
