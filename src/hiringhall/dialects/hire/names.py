"""The UUIDs of the hall, of its jobs, and of workers that have no UUID of their own. All start alike.

    6fa459ea-ee8a-3ca4-894e-db77e160355e    the hall
    6fa459ea-ee8a-3ca4-0000-00100000002a    its job number 68719476778: 8 bytes of the hall, 8 of the number
    6fa459ea-ee8a-3ca4-8000-001000000003    a worker of another dialect, the third since the hall started

Invariant: no other participant, and no other job, has such a UUID.
"""

from __future__ import annotations

from typing import Final

from hiringhall.core import ids
from hiringhall.dialects.hire import wire

_HALF_BYTES: Final = 8
_HALF_TEXT: Final = 19
"""The length of the first eight bytes as text, with three dashes."""
_WORKERS: Final = 1 << 63
NOT_OURS: Final = -1
NUMBERS_MAX: Final = 10_000


class Names:
    """The UUIDs that one hall makes."""

    __slots__ = ("_half", "_half_text", "_numbers", "hall")

    def __init__(self, hall: bytes) -> None:
        self.hall = hall
        """The UUID of the hall itself."""
        self._half = hall[:_HALF_BYTES]
        self._half_text = wire.write_uuid(hall)[:_HALF_TEXT]
        self._numbers: dict[bytes, int] = {}
        """A cache of the latest names, since an announced job is named often."""

    def job(self, number: int) -> bytes:
        name = self._half_text + b"%04x-%012x" % (number >> 48, number & 0xFFFF_FFFF_FFFF)
        if len(self._numbers) >= NUMBERS_MAX:
            self._numbers.clear()
        self._numbers[name] = number
        return name

    def known_number(self, job: bytes) -> int:
        """The number of a job that was named lately, and is named in the same spelling; NOT_OURS: of any other
        job.
        """
        return self._numbers.get(job, NOT_OURS)

    def job_number(self, job: bytes) -> int:
        """The number of a job of the hall; NOT_OURS: it is a provider's."""
        number = self._numbers.get(job)
        if number is not None:
            return number
        if not job.startswith(self._half_text):
            return NOT_OURS
        uuid = wire.read_uuid(job)
        number = 0 if uuid is None else int.from_bytes(uuid[_HALF_BYTES:], "big")
        return number if ids.in_bounds(number) else NOT_OURS

    def worker(self, epoch: int, number: int) -> bytes:
        """The UUID of a worker of another dialect. It changes with each start of the hall."""
        return self._half + (_WORKERS | ids.make(epoch, number)).to_bytes(_HALF_BYTES, "big")

    def owns(self, uuid: bytes) -> bool:
        """Whether only the hall may use this UUID."""
        return uuid[:_HALF_BYTES] == self._half
