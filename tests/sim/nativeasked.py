"""What peers of the native protocol ask for, as their taps remember it until it is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.dialects.native import wire

if TYPE_CHECKING:
    from .sights import Submit

REPORTS: Final = {
    wire.PROGRESS: wire.PROGRESS_BODY,
    wire.CHUNK: wire.CHUNK_BODY,
    wire.FINISH: wire.FINISH_BODY,
    wire.FAIL: wire.FAIL_BODY,
    wire.RELEASE: wire.RELEASE_BODY,
    wire.RENEW: wire.ID_BODY,
    wire.LOSE: wire.FINISH_BODY,
}
"""What a worker says of a lease, which comes first."""
LAST: Final = (wire.FINISH, wire.FAIL, wire.RELEASE, wire.LOSE)
"""After these it no longer has the job."""


class Asked(NamedTuple):
    """A request that is to be answered."""

    kind: str
    submits: tuple[Submit, ...] = ()
    job_id: int = 0
    again: tuple[bool, ...] | None = None
    """Of submits that are sent again: whether the history knew each name when it was asked."""
    queue: bytes = b""
    asked_us: int = 0
    """When it was asked to pause or resume the queue."""
    slots: int = -1
    """Of a worker that says how many jobs it takes."""
    stale: bool = False
    """A report by a lease that its sender does not have."""
    certain: bool = False
    """A report by a lease that its sender has for certain."""
    ended: bool = False
    """Its end was in the history when it was asked for."""
    promised: bool = False
    worker: int = 0
    dead_since_us: int = 0
    """When it had ended, if it was a dead letter on disk as it was asked for."""
