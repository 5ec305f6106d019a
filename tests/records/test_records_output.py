"""The output of jobs in records and in files."""

from __future__ import annotations

import csv
import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet
from records_rows import FIRST_ID, NOW_US, end, fill, job
from test_records_history import NOW

from hiringhall.core.changes import DATA, LOG, OUTPUT_PAGE_BYTES, WARNING, Batch, OutputRow
from hiringhall.core.jobs import OUTPUT
from hiringhall.records import History, OutputLine, save_records
from hiringhall.records.joblines import write_job
from hiringhall.storage.contract import Retention
from hiringhall.storage.sqlite import DATABASE, SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

MARKED = {"reducer": b"sum", OUTPUT: b""}
LIVE_ID = FIRST_ID + 5
LINES = (
    OutputLine(NOW, "data", b"one"),
    OutputLine(NOW + timedelta(seconds=1), "warning", b"\xff"),
    OutputLine(NOW + timedelta(seconds=2), "log", b"three"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An ended job with a cut payload and three lines of output, a silent one, and a live one with one line."""
    fill(tmp_path)
    store = SqliteStore(tmp_path / DATABASE, Retention(payload_bytes_max=3), pytest.fail)
    store.load(0)
    batch = Batch()
    batch.inserts = [job(LIVE_ID, extras=MARKED)]
    batch.ends = [end(FIRST_ID, payload=b"photo", extras=MARKED), end(FIRST_ID + 1, payload=b"abc")]
    kinds = ((DATA, b"one"), (WARNING, b"\xff"), (LOG, b"three"))
    batch.output = [
        OutputRow(FIRST_ID, NOW_US + place * 1_000_000, kind, data) for place, (kind, data) in enumerate(kinds)
    ]
    batch.output.append(OutputRow(LIVE_ID, NOW_US, DATA, b"so far"))
    store.commit(batch, NOW_US)
    store.close()
    return tmp_path


def test_a_record_has_it_if_it_is_asked_for(folder: Path) -> None:
    with History(folder) as history:
        record = history.get(id=FIRST_ID)
        assert record is not None
        assert record.output == LINES
        assert (record.payload, record.payload_bytes) == (b"pho", 5)
        assert record.extras == {"reducer": b"sum"}
        assert [found.output for found in history.find()] == [(), ()]
        assert [found.output for found in history.find(output=True)] == [(), LINES]
        live = history.get(id=LIVE_ID)
        assert live is not None
        assert live.output == (OutputLine(NOW, "data", b"so far"),)
        assert live.payload_bytes == len(live.payload)


def test_a_lot_of_it_is_read_to_the_end(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / DATABASE, Retention(output_bytes_max=10 * OUTPUT_PAGE_BYTES), pytest.fail)
    store.load(0)
    batch = Batch()
    batch.ends = [end(FIRST_ID, extras=MARKED)]
    data = b"x" * (OUTPUT_PAGE_BYTES // 2)
    batch.output = [OutputRow(FIRST_ID, NOW_US, DATA, data)] * 7
    store.commit(batch, NOW_US)
    store.close()
    with History(tmp_path) as history:
        record = history.get(id=FIRST_ID)
    assert record is not None
    assert [line.data for line in record.output] == [data] * 7


def test_it_is_in_every_kind_of_file(folder: Path, tmp_path: Path) -> None:
    with History(folder) as history:
        for form in ("jsonl", "csv", "parquet"):
            assert save_records(history.find(output=True), tmp_path / f"out.{form}") == 2
    as_json = [
        {"at": "2025-10-09T08:53:20+00:00", "kind": "data", "data": "one"},
        {"at": "2025-10-09T08:53:21+00:00", "kind": "warning", "data_base64": "/w=="},
        {"at": "2025-10-09T08:53:22+00:00", "kind": "log", "data": "three"},
    ]
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["output"] for line in lines] == [[], as_json]
    assert [(line["payload"], line["payload_bytes"]) for line in lines] == [("abc", 3), ("pho", 5)]
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["output"] for row in rows] == ["", json.dumps(as_json)]
    assert [row["payload_bytes"] for row in rows] == ["3", "5"]
    table = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["output"] for row in table] == [[], [line._asdict() for line in LINES]]
    assert [row["payload_bytes"] for row in table] == [3, 5]


def test_the_mark_does_not_move_to_another_hall() -> None:
    assert json.loads(write_job(job(7, extras=MARKED)))["extras"] == {"reducer": "sum"}
    assert "extras" not in json.loads(write_job(job(7, extras={OUTPUT: b""})))
