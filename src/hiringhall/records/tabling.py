"""Writes records as Parquet, one row group at a time. Needs pyarrow, an optional dependency."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Final

from hiringhall.records.record import BYTES_FIELDS

if TYPE_CHECKING:
    from hiringhall.records.record import Record

GROUP_ROWS: Final = 8192
GROUP_BYTES: Final = 32 << 20
"""A row group is written when it has this many rows or bytes."""
_INSTALL: Final = 'Parquet needs pyarrow: pip install "hiringhall[parquet]"'


class MissingFormat(Exception):
    """A package that a format needs is not installed. The message says how to install it."""


class GroupWriter:
    """Same columns as CSV, with types: bytes are binary, times are timestamps in UTC; tries and output are
    lists.
    """

    def __init__(self, file: IO[bytes]) -> None:
        try:
            import pyarrow as arrow  # noqa: ICN001, PLC0415 (optional)
            from pyarrow import parquet  # noqa: PLC0415
        except ImportError as error:
            raise MissingFormat(_INSTALL) from error
        self._arrow = arrow
        self._schema = _schema(arrow)
        self._writer = parquet.ParquetWriter(file, self._schema)
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0

    def write(self, record: Record) -> None:
        self._rows.append(_row(record))
        self._bytes += (
            len(record.result) + len(record.payload) + sum([len(said.data) for said in record.output])
        )
        if len(self._rows) >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        if self._rows:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        table = self._arrow.Table.from_pylist(self._rows, self._schema)
        self._rows = []
        self._bytes = 0
        self._writer.write_table(table)


def _schema(arrow: Any) -> Any:
    time = arrow.timestamp("us", tz="UTC")
    binary, number, text = arrow.binary(), arrow.int64(), arrow.string()
    attempt = arrow.struct(
        [("started", time), ("ended", time), ("worker", binary), ("code", number), ("dialect", text)]
    )
    said = arrow.struct([("at", time), ("kind", text), ("data", binary)])
    parent = arrow.struct([("id", number), ("queue", binary), ("key", binary)])
    return arrow.schema(
        [
            ("id", number),
            ("state", text),
            ("code", number),
            *((name, binary) for name in BYTES_FIELDS),
            ("payload_bytes", number),
            *((name, time) for name in ("created", "due", "started", "ended")),
            ("priority", text),
            ("retries", number),
            ("attempts", number),
            ("losses", number),
            ("dialect", text),
            ("tries", arrow.list_(attempt)),
            ("parents", arrow.list_(parent)),
            ("extras", arrow.map_(text, binary)),
            ("output", arrow.list_(said)),
        ]
    )


def _row(record: Record) -> dict[str, Any]:
    row = record._asdict()
    del row["losses_max"]
    del row["quits_max"]
    row["tries"] = [attempt._asdict() for attempt in record.tries]
    row["output"] = [said._asdict() for said in record.output]
    row["parents"] = [
        {"id": parent} if isinstance(parent, int) else {"queue": parent[0], "key": parent[1]}
        for parent in record.parents
    ]
    row["extras"] = list(record.extras.items())
    return row
