"""What a command has written, until it is its turn to be shown.

Invariant: a job keeps at most KEPT_BYTES of each stream in memory, and no descriptor; the rest is in a file of
the folder for temporary files, which goes with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEPT_BYTES: Final = 1 << 18
READ_BYTES: Final = 1 << 20


class Stream:
    """Standard output or standard error of one job."""

    __slots__ = ("_file", "_kept", "_parts", "_spilled")

    def __init__(self, file: Path) -> None:
        """`file`: where it goes when it becomes long."""
        self._file = file
        self._parts: list[bytes] = []
        self._kept = 0
        self._spilled = 0

    @property
    def size(self) -> int:
        return self._spilled + self._kept

    def add(self, data: bytes) -> None:
        self._parts.append(data)
        self._kept += len(data)
        if self._kept > KEPT_BYTES:
            with self._file.open("ab") as file:
                file.writelines(self._parts)
            self._spilled += self._kept
            self._parts.clear()
            self._kept = 0

    def pieces(self) -> Iterator[bytes]:
        """All of it, in order."""
        if self._spilled:
            with self._file.open("rb") as file:
                while data := file.read(READ_BYTES):
                    yield data
        yield from self._parts

    def clear(self) -> None:
        if self._spilled:
            self._file.unlink(missing_ok=True)
        self._parts.clear()
        self._kept = self._spilled = 0


class Output:
    """Both streams of one job."""

    __slots__ = ("stderr", "stdout")

    def __init__(self, folder: Path, number: int) -> None:
        self.stdout = Stream(folder / f"{number}.out")
        self.stderr = Stream(folder / f"{number}.err")

    def add(self, data: bytes, *, warning: bool) -> None:
        (self.stderr if warning else self.stdout).add(data)

    def clear(self) -> None:
        self.stdout.clear()
        self.stderr.clear()
