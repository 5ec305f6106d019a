"""Writes records to files: JSON Lines, CSV, Parquet.

Invariant: written records are not kept, so a million records need no more memory than a thousand. A file gets
its name only when it is complete.
"""

from __future__ import annotations

import base64
import codecs
import csv
import json
import os
import re
import stat
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Protocol

from hiringhall.records.record import BYTES_FIELDS, Record, written
from hiringhall.records.tabling import GroupWriter, MissingFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CSV_COLUMNS: Final = (
    "id",
    "state",
    "code",
    *BYTES_FIELDS,
    "payload_bytes",
    "created",
    "due",
    "started",
    "ended",
    "priority",
    "retries",
    "attempts",
    "losses",
    "dialect",
    "tries",
    "parents",
    "extras",
    "extras_base64",
    "output",
    "base64",
)
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
_OWNER_ALONE: Final = 0o600
_QUOTED: Final = ("=", "+", "-", "@", "\t", "\r", "\n", *"\uff1d\uff0b\uff0d\uff20", "'")
"""What a spreadsheet treats as the start of a formula, and the apostrophe that marks a cell as text."""
_CONTROLS: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""The control characters of C0 and C1, except tab and line ends."""
_JSON_COLUMNS: Final = ("tries", "parents", "extras", "extras_base64", "output")


class RecordWriter(Protocol):
    """Writes records one by one. `close` writes what is buffered, and leaves the file open."""

    def write(self, record: Record) -> None: ...

    def close(self) -> None: ...


class JsonLinesWriter:
    """One object per line, as `Record.as_json` returns it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, record: Record) -> None:
        self._file.write(json.dumps(record.as_json()).encode() + b"\n")

    def close(self) -> None:
        """Nothing is buffered."""


class CsvWriter:
    """A header line, then one line per record. The last column names the columns that are in base64 because
    their bytes are not UTF-8 or contain control characters of terminals. Tries, parents, extras and output are
    JSON, as `Record.as_json` returns them. Text that a spreadsheet would treat as a formula, or that begins
    with an apostrophe, gets an apostrophe in front.
    """

    def __init__(self, file: IO[bytes]) -> None:
        # Only with this line end do all versions of Python quote a cell with a carriage return.
        self._rows = csv.writer(codecs.getwriter("utf-8")(file), lineterminator="\r\n")
        self._rows.writerow(CSV_COLUMNS)

    def write(self, record: Record) -> None:
        cells: list[str | int] = []
        encoded: list[str] = []
        for name in BYTES_FIELDS:
            data: bytes = getattr(record, name)
            text = _plain_text(data)
            if text is None:
                text = base64.b64encode(data).decode()
                encoded.append(name)
            cells.append(f"'{text}" if text.startswith(_QUOTED) else text)
        line = record.as_json()
        self._rows.writerow(
            [
                record.id,
                record.state,
                record.code,
                *cells,
                record.payload_bytes,
                *(written(at) or "" for at in (record.created, record.due, record.started, record.ended)),
                record.priority,
                record.retries,
                record.attempts,
                record.losses,
                record.dialect,
                *(json.dumps(line[name]) if line.get(name) else "" for name in _JSON_COLUMNS),
                " ".join(encoded),
            ]
        )

    def close(self) -> None:
        """Nothing is buffered."""


def _plain_text(data: bytes) -> str | None:
    """Bytes as text without control characters; None: they are not such text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if _CONTROLS.search(text) else text


FORMATS: Final[dict[str, Callable[[IO[bytes]], RecordWriter]]] = {
    "jsonl": JsonLinesWriter,
    "csv": CsvWriter,
    "parquet": GroupWriter,
}
"""By file suffix. Creating a writer raises MissingFormat if a package is not installed."""


def write_records(records: Iterable[Record], file: IO[bytes], form: str) -> int:
    """Write records to an open file in one of `FORMATS`. Return their number."""
    count = 0
    with closing(FORMATS[form](file)) as writer:
        for record in records:
            writer.write(record)
            count += 1
    file.flush()
    return count


def save_records(records: Iterable[Record], path: Path, form: str | None = None) -> int:
    """Write records to the file `path`, in the format of its suffix unless another is given. Return their
    number. An existing file stays until the new one is complete; a FIFO or a device is written to directly.
    """
    chosen = path.suffix.removeprefix(".").lower() if form is None else form
    if chosen not in FORMATS:
        raise ValueError(f'"{chosen}" is not a format; the formats are {", ".join(FORMATS)}')
    with atomic_file(path) as file:
        return write_records(records, file, chosen)


class atomic_file:  # noqa: N801 (used like `open`)
    """Opens a file for writing. It gets its name when it is complete and on disk; after an error it is removed.
    A symbolic link stays, and its target is replaced. A device or a FIFO is written to directly. A new file is
    private to its owner; one that replaces another has the permissions of the other.
    """

    def __init__(self, path: Path) -> None:
        self._is_file = path.is_file() or not path.exists()
        self._path = Path(os.path.realpath(path)) if self._is_file else path
        self._unfinished = self._path.with_name(f".{self._path.name}.{os.getpid()}.part")

    def __enter__(self) -> IO[bytes]:
        if not self._is_file:
            self._file: IO[bytes] = self._path.open("wb")
            return self._file
        self._file = os.fdopen(os.open(self._unfinished, _CREATE, _OWNER_ALONE), "wb")
        with suppress(OSError):  # There was no file, or it has another owner.
            os.fchmod(self._file.fileno(), stat.S_IMODE(self._path.stat().st_mode))
        return self._file

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._is_file:
            self._file.close()
            return
        try:
            with self._file:
                if kind is None:
                    self._file.flush()
                    os.fsync(self._file.fileno())
            if kind is None:
                self._unfinished.replace(self._path)
        finally:
            self._unfinished.unlink(missing_ok=True)


__all__ = [
    "CSV_COLUMNS",
    "FORMATS",
    "CsvWriter",
    "JsonLinesWriter",
    "MissingFormat",
    "RecordWriter",
    "atomic_file",
    "save_records",
    "write_records",
]
