"""Detects committed data that is missing from the write-ahead log. SQLite itself does not.

SQLite reads a log up to the first frame with a wrong checksum and silently ignores the rest. After a crash
that is right: the last write is incomplete, and nobody was told that it was committed. This module
distinguishes such a torn tail from damage. It uses three kinds of evidence; none of them slows down a commit:

- The table `meta` of the data file says that it is open, from the start of a hall until it has closed. As long
  as it does, there must be a log (`OPEN`). A copy of the file, which has another inode, says so too: a copy
  made by SQLite's backup is complete without a log, one made by `cp` is not.
- SQLite's index of the log (the file `-shm`) counts the committed frames, and those copied into the data file.
  It is not synced, so after a power failure it may count too few frames, but never too many.
- A commit waits for the one before it, so a torn tail has at most one commit mark, and nothing after it.
  Frames of an earlier generation of the log have other salts.

The formats are those of https://sqlite.org/fileformat2.html and https://sqlite.org/walformat.html.
"""

from __future__ import annotations

import sqlite3
import struct
import sys
from contextlib import closing
from typing import IO, TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from pathlib import Path

OPEN: Final = "open"
"""The name of the row in `meta` that holds the boot epoch of the hall that has the file open."""
OPEN_INODE: Final = "open_inode"
"""The name of the row in `meta` that holds the inode of the open file."""

_HEADER: Final = struct.Struct(">8I")
_FRAME_HEADER: Final = struct.Struct(">6I")
_MAGIC: Final = 0x377F0682
_BIG_ENDIAN: Final = 1
"""Set in the magic number if the checksums use big-endian words."""
_SUMMED_HEADER_BYTES: Final = 24
_SUMMED_FRAME_HEADER_BYTES: Final = 8
_FORMAT: Final = 3_007_000
_INDEX_HEADER: Final = struct.Struct("=3I2BH2I4I2I")
_SUMMED_INDEX_BYTES: Final = 40
_INDEX_SALTS_AT: Final = 32
_SALTS: Final = struct.Struct(">2I")
_WORD: Final = 0xFFFFFFFF


class _Log(NamedTuple):
    """The content of a log file."""

    salts: tuple[int, int]
    whole: int
    """The number of frames up to the last commit that SQLite will find."""
    whole_commits: int
    frames: int
    """The number of the last frame of this generation, valid or not."""
    later_commits: list[int]
    """The numbers of the frames after `whole` that are marked as the end of a commit."""


class _Index(NamedTuple):
    """What SQLite's index counts; zeros: unknown."""

    committed: int = 0
    copied: int = 0
    """Frames that were copied into the data file and synced."""


class Damage(NamedTuple):
    """What is wrong with a log, as text for the operator."""

    what: str
    certain: str
    lost: str
    sure: bool = True
    """False: it may be a complete copy."""
    copied: bool = False
    """The data file holds more than the readable part of the log."""


def log_path(data_file: Path) -> Path:
    return data_file.with_name(f"{data_file.name}-wal")


def index_path(data_file: Path) -> Path:
    return data_file.with_name(f"{data_file.name}-shm")


def find_damage(data_file: Path) -> Damage | None:
    """The damage of the log; None: none was found. No process may have the file open."""
    path = log_path(data_file)
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER.size)
            if len(header) == _HEADER.size:
                log = _read_log(file, header)
                if log is not None:
                    return _judge(path.name, log, _read_index(data_file, log.salts))
                if any(header):
                    return _unreadable(data_file, f"{path.name} is damaged: its header cannot be read")
                what = "is empty"  # As after a power failure before the first commit of a new log.
            else:
                what = "is empty or cut off"
    except FileNotFoundError:
        what = "is missing"
    except OSError:
        return None  # SQLite cannot read it either, and its error tells why.
    opened = _find_opened(data_file)
    if opened is None:
        return None
    if opened.inode != data_file.stat().st_ino:
        copy = f"{data_file.name} is a copy of a file that a hall had open, without its log"
        return _unreadable(data_file, copy, "; nothing if SQLite's own backup made the copy", sure=False)
    gone = f"{path.name} {what}, and the hall that had it open did not close it"
    return _unreadable(data_file, gone, "; nothing if sqlite3 or a similar tool has opened the file since")


def _unreadable(data_file: Path, what: str, unless: str = "", *, sure: bool = True) -> Damage:
    lost = f"what was acknowledged after the log was last copied into that file{unless}"
    return Damage(what, f"what {data_file.name} holds", lost, sure=sure, copied=True)


def _judge(name: str, log: _Log, index: _Index) -> Damage | None:
    later = log.later_commits
    torn_tail = not later or later == [log.frames]
    if index.committed <= log.whole and torn_tail:
        return None
    written = max(index.committed, log.frames)
    what = f"{name} is damaged: of {written} frames only the first {log.whole} can be used"
    if index.copied > log.whole:
        lost = (
            "nothing" if index.copied >= max(index.committed, *later, 0) else "what was not yet copied into it"
        )
        return Damage(what, "what the data file holds", lost, copied=True)
    return Damage(
        what,
        f"what the data file and the first {_commits(log.whole_commits)} of the log hold",
        f"the {_commits(max(len(later), 1))} after that, or more",
    )


def _commits(count: int) -> str:
    return f"{count} commit" if count == 1 else f"{count} commits"


def _read_log(file: IO[bytes], header: bytes) -> _Log | None:
    """None: the header is invalid, so nothing after it can be read."""
    magic, version, page_bytes, _, salt_1, salt_2, sum_1, sum_2 = _HEADER.unpack(header)
    order = ">" if magic & _BIG_ENDIAN else "<"
    summed = checksum(header[:_SUMMED_HEADER_BYTES], (0, 0), order)
    if magic & ~_BIG_ENDIAN != _MAGIC or version != _FORMAT or summed != (sum_1, sum_2):
        return None
    whole = whole_commits = frames = number = 0
    later_commits: list[int] = []
    chained = True
    """Every frame so far is valid, so SQLite continues with the next."""
    while len(frame := file.read(_FRAME_HEADER.size + page_bytes)) == _FRAME_HEADER.size + page_bytes:
        number += 1
        _, commit_pages, frame_salt_1, frame_salt_2, sum_1, sum_2 = _FRAME_HEADER.unpack_from(frame)
        if (frame_salt_1, frame_salt_2) != (salt_1, salt_2):
            chained = False
            continue
        frames = number
        if chained:
            summed = checksum(frame[:_SUMMED_FRAME_HEADER_BYTES], summed, order)
            summed = checksum(frame[_FRAME_HEADER.size :], summed, order)
            chained = summed == (sum_1, sum_2)
        if commit_pages and chained:
            whole = number
            whole_commits += 1
        elif commit_pages:
            later_commits.append(number)
    return _Log((salt_1, salt_2), whole, whole_commits, frames, later_commits)


def checksum(data: bytes, before: tuple[int, int], order: str) -> tuple[int, int]:
    """SQLite's checksum of pairs of words, continued from the checksum of the preceding data."""
    sum_1, sum_2 = before
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for first, second in zip(words, words, strict=True):
        sum_1 = (sum_1 + first + sum_2) & _WORD
        sum_2 = (sum_2 + second + sum_1) & _WORD
    return sum_1, sum_2


def _read_index(data_file: Path, salts: tuple[int, int]) -> _Index:
    """What SQLite's index says about the log with these salts."""
    try:
        with index_path(data_file).open("rb") as file:
            header, copy = file.read(_INDEX_HEADER.size), file.read(_INDEX_HEADER.size)
            copied = file.read(4)
    except OSError:
        return _Index()
    if len(copied) < 4 or header != copy:
        return _Index()
    version, _, _, _, _, _, committed, _, _, _, _, _, sum_1, sum_2 = _INDEX_HEADER.unpack(header)
    # The salts are copied byte by byte from the log's header, independent of this machine's byte order.
    same_log = _SALTS.unpack_from(header, _INDEX_SALTS_AT) == salts
    order = "<" if sys.byteorder == "little" else ">"
    summed = checksum(header[:_SUMMED_INDEX_BYTES], (0, 0), order)
    if version != _FORMAT or not same_log or summed != (sum_1, sum_2):
        return _Index()
    return _Index(committed, int.from_bytes(copied, sys.byteorder))


class _Opened(NamedTuple):
    """What the data file says about the hall that has it open."""

    inode: int


def _find_opened(data_file: Path) -> _Opened | None:
    """None: the file is closed. If its epoch is later than that of the `open` row, an older version of the
    hall, which does not write that row, has opened and closed it since.
    """
    address = f"file:{quote(bytes(data_file.absolute()))}?immutable=1"  # without its log
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            rows = dict(connection.execute("SELECT name, value FROM meta WHERE name <> 'probe'"))
    except sqlite3.Error:
        return None  # The file does not exist, or is refused for other reasons.
    epoch, opened, inode = rows.get("epoch"), rows.get(OPEN), rows.get(OPEN_INODE)
    if not isinstance(epoch, int) or not isinstance(opened, int) or opened < epoch:
        return None
    return _Opened(inode if isinstance(inode, int) else 0)
