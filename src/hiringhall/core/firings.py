"""How far each schedule has come.

The law: the job of a schedule, and that the schedule has fired, are stored together or not at all.
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
        """How far each schedule has come, by its name."""
        self._stored: dict[str, Firing] = {}
        """The same, as the store has it."""

    def fire(self, name: str, firing: Firing, spec: JobSpec) -> Job:
        """A schedule's time has come: its job, and that it has fired, are stored together or not at all."""
        job = self._submissions.submit(spec, None)
        self.mark(name, firing)
        return job

    def mark(self, name: str, firing: Firing | None) -> None:
        """A schedule has come this far without a job, or is forgotten."""
        if firing is None:
            self.by_name.pop(name, None)
        else:
            self.by_name[name] = firing
        self._table.ledger.note_fired(name, firing)

    def restore(self, fired: Mapping[str, Firing]) -> None:
        """The store remembers these."""
        self.by_name.update(fired)
        self._stored.update(fired)

    def committed(self, batch: Batch) -> None:
        """What the batch says is on disk."""
        for name, firing in batch.fired.items():
            if firing is None:
                self._stored.pop(name, None)
            else:
                self._stored[name] = firing

    def withdraw(self, batch: Batch) -> None:
        """What the batch says is not on disk, and has not happened."""
        for name in self._table.ledger.unfired(batch):
            before = self._stored.get(name)
            if before is None:
                self.by_name.pop(name, None)
            else:
                self.by_name[name] = before
