"""A peer without a dialect, for jobs that come from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.jobs import JobSpec
from hiringhall.core.peer import Peer
from hiringhall.core.states import STATE_NAMES
from hiringhall.core.terms import DEFAULT_TERMS

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.terms import Terms
    from stage.hall import Hall


class Watcher(Peer):
    """Submits jobs to the scheduler and records what it is told about them."""

    def __init__(self, hall: Hall) -> None:
        super().__init__()
        self.hall = hall
        self._heard: list[tuple[str, bytes]] = []

    def submits(
        self,
        queue: bytes,
        payload: bytes = b"",
        key: bytes = b"",
        terms: Terms = DEFAULT_TERMS,
        due_us: int = 0,
    ) -> Job:
        """In the open turn, or in a new one. The turn stays open."""
        self.hall.begin()
        return self.hall.scheduler.submit(JobSpec(queue, payload, key, terms, due_us), self)

    def hears(self) -> list[tuple[str, bytes]]:
        """End the turn; everything since the last time."""
        self.hall.end()
        heard, self._heard = self._heard, []
        return heard

    # --- notices

    def progressed(self, job: Job) -> None:
        self._heard.append(("progress", b"%d/%d" % (job.numerator, job.denominator)))

    def chunked(self, job: Job, data: bytes, warning: bool) -> None:
        self._heard.append(("warning" if warning else "chunk", data))

    def ended(self, job: Job) -> None:
        self._heard.append((f"{STATE_NAMES[job.state]} {job.code}", job.result))
