"""The jobs that providers have announced: one `Posting` each, from its announcement until its dismissal.

Invariants: a job id names one posting in a hall. Postings are ordered by the time at which they expire; only
those for which a worker is hired may be out of order, since they do not expire.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.core.workers import Worker  # noqa: TC001 (compiled, a NamedTuple looks its types up)

if TYPE_CHECKING:
    from hiringhall.core.leases import Engagement
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.hire.hire_bus import Participant

POSTINGS_MAX: Final = 100_000
SCANNED_MAX: Final = 10_000
"""Postings that one search looks at."""
UNHIRED_MAX: Final = 1000
"""Postings in one list of those without a worker."""


class Bid(NamedTuple):
    """A worker that a provider may hire."""

    worker: Worker
    available_us: int
    """When it can begin."""
    hirings: int
    """The worker's count of hirings when it bid: if it was hired since then, the bid is void."""


class Posting:
    """One job of a provider."""

    __slots__ = ("bids", "engagement", "finished", "job", "provider", "type", "until_us")

    def __init__(self, provider: Participant, job: bytes, name: bytes) -> None:
        self.provider = provider
        self.job = job
        """Its id, as the provider calls it."""
        self.type = name
        self.until_us = 0
        """When it expires, unless a worker is hired."""
        self.bids: dict[bytes, Bid] = {}
        """By the UUID of the worker: its own, or the one that was made for a worker of another dialect."""
        self.engagement: Engagement | None = None
        """The hired worker's lease; its job has this posting's id as its key."""
        self.finished = b""
        """The UUID of a worker of another dialect that has done the job and is not dismissed yet."""


class Postings:
    """All postings of one hall."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.by_job: dict[bytes, Posting] = {}
        self.postings_max = POSTINGS_MAX

    def find(self, job: bytes) -> Posting | None:
        posting = self.by_job.get(job)
        if posting is not None and self._is_expired(posting):
            self.remove(posting)
            return None
        return posting

    def add(self, provider: Participant, job: bytes, name: bytes) -> Posting | None:
        """None: there are `postings_max` already."""
        if len(self.by_job) >= self.postings_max and not self._remove_expired():
            return None
        posting = Posting(provider, job, name)
        self.by_job[job] = provider.postings[job] = posting
        return posting

    def renew(self, posting: Posting) -> None:
        """Let it expire after its full time from now."""
        posting.until_us = self._scheduler.awake_us + posting.provider.context.options.posting_us
        del self.by_job[posting.job]
        self.by_job[posting.job] = posting

    def remove(self, posting: Posting) -> None:
        del self.by_job[posting.job]
        del posting.provider.postings[posting.job]

    def unhired(self) -> list[Posting]:
        """The postings for which no worker is hired, the oldest first."""
        found: list[Posting] = []
        for posting in islice(self.by_job.values(), SCANNED_MAX):
            if len(found) >= UNHIRED_MAX:
                break
            if posting.engagement is None and not posting.finished and not self._is_expired(posting):
                found.append(posting)
        return found

    def has_any(self, provider: Participant) -> bool:
        """Whether a provider has a posting that has not expired."""
        return any(not self._is_expired(posting) for posting in provider.postings.values())

    def _is_expired(self, posting: Posting) -> bool:
        return posting.engagement is None and posting.until_us <= self._scheduler.awake_us

    def _remove_expired(self) -> bool:
        """Returns whether there is room now."""
        for posting in list(islice(self.by_job.values(), SCANNED_MAX)):
            if self._is_expired(posting):
                self.remove(posting)
            elif posting.engagement is None:
                break  # all after it expire later
            else:
                self.renew(posting)
        return len(self.by_job) < self.postings_max
