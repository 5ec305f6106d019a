"""A peer, as the core sees it: the base of every session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Engagement, Lease
    from hiringhall.core.workers import Worker

NO_JOBS: Final[dict[Job, None]] = {}
"""Shared by all peers that watch nothing, most workers among them; never written to."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Peer:
    """Receives notices. A notice is a plain call in the middle of a turn: it may queue bytes and read its
    arguments, and must not call a verb.
    """

    def __init__(self) -> None:
        self.worker: Worker | None = None
        """Set by the first verb that makes this peer a worker."""
        self.watching = NO_JOBS
        """Live jobs that have this peer in `watchers`. Written by `Watchers`, and by the table when a job
        ends."""
        self.held_since_us = 0
        """What it was told since then waits for a commit, so it does not know it yet; 0: nothing waits. Set by
        the engine."""

    @property
    def dialect(self) -> str:
        """The protocol that it speaks, for people and for the history; empty: none."""
        return ""

    @property
    def speaker(self) -> Peer:
        """The peer that has the connection: itself, unless it is a stand-in."""
        return self

    def woken(self) -> None:
        """A sleeping worker should ask for work."""

    def assigned(self, lease: Lease) -> None:
        """Work was pushed to a worker that offered slots."""

    def revoked(self, lease: Lease) -> None:
        """A worker: stop, the lease was ended by others. Its later reports on it are refused."""

    def announced(self, jobs: list[Job]) -> None:
        """A market: workers may bid for these jobs."""

    def hired(self, engagement: Engagement) -> None:
        """A worker that bid: it is hired. If the engagement is ended by others, `revoked` follows."""

    def called(self, engagement: Engagement) -> None:
        """A worker that arrived before its job was due: begin now."""

    def joined(self, engagement: Engagement) -> None:
        """A provider: a worker of another dialect has begun with its job."""

    def drained(self, draining: bool) -> None:
        """A worker: an operator lets it finish and gives it no more jobs, or gives it jobs again."""

    def lost(self) -> None:
        """The worker was silent for too long and was removed; its next verb makes it a worker again."""

    def progressed(self, job: Job) -> None:
        """A watched job reports progress: see its numerator and denominator."""

    def chunked(self, job: Job, data: bytes, warning: bool) -> None:
        """A watched job's worker sent data, or a warning, ahead of the end."""

    def logged(self, job: Job, data: bytes) -> None:
        """A watched job's worker wrote a line to its log."""

    def ended(self, job: Job) -> None:
        """A watched job ended: see its state, code and result."""
