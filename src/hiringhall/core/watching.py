"""Watching: the peers that are told how a job goes.

Invariant: a job has a peer in `watchers` exactly while the peer has the job in `watching`. A job that is not
detached lives only as long as a peer watches it or a worker has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import HALL_FULL, Refusal
from hiringhall.core.peer import NO_JOBS
from hiringhall.core.states import CALLED_OFF, CANCELLED, DONE, LEASED

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.peer import Peer
    from hiringhall.core.table import JobTable

NO_WATCHERS: Final = b"nobody waits for it any more"
"""Why a job was cancelled that its watchers left."""


class Watchers:
    """The verbs of watchers."""

    def __init__(self, table: JobTable) -> None:
        self._table = table

    def watch(self, job: Job, peer: Peer) -> None:
        """Add `peer` to the watchers of a live job. A peer that watches twice is told twice."""
        if job.state >= DONE:
            return
        watchers = job.watchers
        if watchers is None:
            job.watchers = [peer]
        else:
            if len(watchers) >= self._table.limits.watchers_max:
                text = f"{self._table.limits.watchers_max} peers watch this job already (watchers_max)"
                raise Refusal(HALL_FULL, text)
            watchers.append(peer)
        if peer.watching is NO_JOBS:
            peer.watching = {}
        peer.watching[job] = None

    def unwatch(self, job: Job, peer: Peer) -> None:
        """Remove `peer` from the watchers. A job that is not detached ends with its last watcher, unless a
        worker has it.
        """
        if job not in peer.watching:
            return
        del peer.watching[job]
        assert job.watchers is not None
        remaining = [other for other in job.watchers if other is not peer]
        job.watchers = remaining or None
        if not remaining and not job.terms.detached and job.state != LEASED:
            self._table.end(job, CANCELLED, CALLED_OFF, NO_WATCHERS)

    def unwatch_once(self, job: Job, peer: Peer) -> bool:
        """Undo one `watch` of `peer`, because its submit was refused after all. Ends no job. True: it was the
        only one, and the peer no longer watches the job.
        """
        watchers = job.watchers
        if watchers is None or peer not in watchers:
            return False
        watchers.remove(peer)
        if not watchers:
            job.watchers = None
        if peer in watchers:
            return False
        del peer.watching[job]
        return True
