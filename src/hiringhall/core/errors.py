"""The core's two ways to say no: a `Refusal` to a peer, a broken `invariant` to ourselves."""

from __future__ import annotations

from typing import Final

UNKNOWN_JOB: Final = "unknown_job"
STALE_LEASE: Final = "stale_lease"
QUEUE_FULL: Final = "queue_full"
HALL_FULL: Final = "hall_full"
TOO_LARGE: Final = "too_large"
BAD_REQUEST: Final = "bad_request"
CYCLE: Final = "cycle"
WRONG_STATE: Final = "wrong_state"
STORE_DOWN: Final = "store_down"
CLOSING: Final = "closing"


class Refusal(Exception):
    """The core's "no" to one request: `reason` is one of the words above, `text` is for people."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(f"{reason}: {text}")
        self.reason = reason
        self.text = text


class BrokenLaw(Exception):
    """One of our own laws does not hold. Nothing catches it but the process's last handler."""


def invariant(holds: bool, law: str) -> None:
    """Stop loudly when a law of our own is broken; never used on what a peer sent."""
    if not holds:
        raise BrokenLaw(law)
