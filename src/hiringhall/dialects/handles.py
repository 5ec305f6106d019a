"""Job handles, for the dialects that have them: a prefix and the job's number.

Invariant: a handle names one job for ever, and only a handle that was made here is valid.
"""

from __future__ import annotations

from typing import Final

from hiringhall.core import ids

HANDLE_BYTES_MAX: Final = 63
PREFIX_BYTES_MAX: Final = HANDLE_BYTES_MAX - 1 - ids.DIGITS_MAX
_LAST_DIGITS: Final = [b"%03d" % number for number in range(1000)]
"""The last three digits of a number, made in advance."""


class Handles:
    """Makes and reads the handles of one door: its prefix, a colon and the job's number."""

    __slots__ = ("_start", "_start_id", "prefix")

    def __init__(self, prefix: bytes) -> None:
        if not 0 < len(prefix) <= PREFIX_BYTES_MAX or b"\0" in prefix or b"\n" in prefix or b" " in prefix:
            text = f"the prefix of handles must have 1 to {PREFIX_BYTES_MAX} bytes and no NUL, space or newline"
            raise ValueError(text)
        self.prefix = prefix + b":"
        self._start = b""
        """A handle without its last three digits."""
        self._start_id = -1000
        """The number of the job whose handle that would be, with three zeros."""

    def handle(self, job_id: int) -> bytes:
        # Most jobs are neighbours of the one before: a number is written in digits once for a thousand of them.
        last = job_id - self._start_id
        if not 0 <= last < 1000:
            if job_id < 1000:
                return b"%b%d" % (self.prefix, job_id)
            last = job_id % 1000
            self._start_id = job_id - last
            self._start = b"%b%d" % (self.prefix, job_id // 1000)
        return self._start + _LAST_DIGITS[last]

    def job_id(self, handle: bytes) -> int:
        """The number of the job; 0: it is not a valid handle of this door."""
        prefix = self.prefix
        return ids.parse(handle[len(prefix) :]) if handle.startswith(prefix) else 0
