"""Records become files, and are the same when they are read back."""

from __future__ import annotations

import base64
import csv
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet
from records_rows import NOW_US, end, fill, job

from hiringhall.core.states import DELAYED, FAILED, HELD
from hiringhall.records import FORMATS, History, save_records
from hiringhall.records.record import BYTES_FIELDS, as_microseconds, ended_record
from hiringhall.records.tabling import GROUP_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hiringhall.records import Record

COUNT = 10_000
ODD = b'text, "quoted";\nsecond line\r\n\tand \x00 \xc3\xa9'
BINARY = b"\xff\xfe\x00"


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """Ten thousand ended jobs, some of them odd, and two live ones."""
    tries = ((NOW_US - 9, NOW_US - 8, b"cat", 125, "wmp"), (NOW_US - 7, 0, BINARY, 123, ""))
    ends = [end(number, key=b"%d" % number) for number in range(1, COUNT - 1)]
    ends.append(end(COUNT - 1, key=BINARY, queue=ODD, state=FAILED, payload=ODD, result=BINARY, tries=tries))
    ends.append(end(COUNT, result=ODD, extras={"reducer": b"sum", "odd": BINARY}))
    jobs = [
        job(COUNT + 1, key=b"x", state=DELAYED, due_us=NOW_US + 1),
        job(COUNT + 2, key=b"x", queue=b"q", state=HELD, parents=(7, (b"mail", BINARY))),
    ]
    with History(fill(tmp_path_factory.mktemp("many"), ends, jobs)) as history:
        return [*history.find(key="x"), *history.find()]


def test_json_lines_read_back_as_they_were(records: list[Record], tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    assert save_records(records, path) == COUNT + 2
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert lines == [record.as_json() for record in records]
    for line, record in zip(lines, records, strict=True):
        for name in BYTES_FIELDS:
            data = line[name].encode() if name in line else base64.b64decode(line[f"{name}_base64"])
            assert data == getattr(record, name)


def test_csv_reads_back_as_it_was(records: list[Record], tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    assert save_records(iter(records), path) == COUNT + 2
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(records)
    for row, record in zip(rows, records, strict=True):
        encoded = row["base64"].split()
        for name in BYTES_FIELDS:
            text = row[name].removeprefix("'")
            data = base64.b64decode(text) if name in encoded else text.encode()
            assert data == getattr(record, name)
        line = record.as_json()
        for name in ("id", "state", "code", "priority", "retries", "attempts", "losses"):
            assert row[name] == str(line[name])
        for name in ("created", "due", "started", "ended"):
            assert row[name] == (line[name] or "")
        assert json.loads(row["tries"] or "[]") == line["tries"]
        assert json.loads(row["parents"] or "[]") == line["parents"]
        assert json.loads(row["extras"] or "{}") == line["extras"]
        assert json.loads(row["extras_base64"] or "{}") == line.get("extras_base64", {})


@pytest.mark.parametrize(
    "written",
    ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "'=1", "=\x1b[31m", "\u009b31m"],
)
def test_no_cell_of_csv_is_a_formula_or_holds_controls_and_all_are_exact(written: str, tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    data = written.encode()
    save_records([ended_record(end(1, queue=data, key=data, result=data, payload=data))], path)
    with path.open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    for cell in row.values():
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d")), cell
        assert all(char.isprintable() or char in "\t\r\n" for char in cell), cell
    for name in ("queue", "key", "result", "payload"):
        text = row[name].removeprefix("'")
        assert (base64.b64decode(text) if name in row["base64"].split() else text.encode()) == data


def test_base64_that_begins_like_a_formula_is_marked_as_text(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    save_records([ended_record(end(1, result=b"\xfb\xff"))], path)
    assert b",'+/8=," in path.read_bytes()


@pytest.mark.parametrize("form", FORMATS)
def test_a_new_file_is_for_its_owner_alone_and_a_replaced_one_keeps_its_permissions(
    form: str, tmp_path: Path
) -> None:
    path = tmp_path / f"one.{form}"
    before = os.umask(0)
    try:
        save_records([], path)
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o644)
        save_records([], path)
        assert path.stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(before)


def test_a_carriage_return_stays_within_its_cell(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    save_records([ended_record(end(1, result=b"320\rx200"))], path)
    assert b',"320\rx200",' in path.read_bytes()
    assert path.read_bytes().count(b"\r\n") == 2


def test_parquet_reads_back_as_it_was(records: list[Record], tmp_path: Path) -> None:
    path = tmp_path / "all.parquet"
    assert save_records(records, path) == COUNT + 2
    with parquet.ParquetFile(path) as file:
        assert file.num_row_groups == -(-(COUNT + 2) // GROUP_ROWS) == 2
        rows = file.read().to_pylist()
    for row, record in zip(rows, records, strict=True):
        for name in (*BYTES_FIELDS, "id", "state", "code", "created", "due", "started", "ended", "retries"):
            assert row[name] == getattr(record, name), name
        assert [tuple(attempt.values()) for attempt in row["tries"]] == [tuple(one) for one in record.tries]
        parents = [one["id"] if one["id"] is not None else (one["queue"], one["key"]) for one in row["parents"]]
        assert tuple(parents) == record.parents
        assert dict(row["extras"]) == record.extras


@pytest.mark.parametrize("form", list(FORMATS))
def test_no_records_make_a_file_that_can_be_read(form: str, tmp_path: Path) -> None:
    path = tmp_path / "none"
    assert save_records([], path, form) == 0
    if form == "parquet":
        assert parquet.read_table(path).num_rows == 0
    else:
        assert path.read_text().count("\n") == (1 if form == "csv" else 0)


@pytest.mark.parametrize("form", list(FORMATS))
def test_what_breaks_halfway_leaves_the_earlier_file(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{form}"
    path.write_bytes(b"earlier")

    def broken() -> Iterator[Record]:
        yield ended_record(end(1))
        raise ConnectionError("the disk went away")

    with pytest.raises(ConnectionError):
        save_records(broken(), path)
    assert path.read_bytes() == b"earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_a_fifo_is_written_to_and_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    os.mkfifo(path)
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        assert save_records([ended_record(end(7))], path) == 1
        assert json.loads(reader.read())["id"] == 7
    assert path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_one_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "log.csv"
    for target in (tmp_path / "elsewhere" / "old.csv", tmp_path / "elsewhere" / "new.csv"):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        if target.name == "old.csv":
            target.write_bytes(b"earlier")
        assert save_records([], link) == 0
        assert link.is_symlink()
        assert target.read_bytes().startswith(b"id,state,")
    assert len(list((tmp_path / "elsewhere").iterdir())) == 2


def test_a_folder_is_no_file_to_write(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        save_records([], tmp_path, "csv")


def test_a_name_that_says_no_format_is_refused(tmp_path: Path) -> None:
    for name in ("log", "log.xml", "log."):
        with pytest.raises(ValueError, match="is not a format; the formats are jsonl, csv, parquet"):
            save_records([], tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_without_pyarrow_parquet_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from pathlib import Path\n"
        "from hiringhall.records import MissingFormat, save_records\n"
        "try:\n"
        "    save_records([], Path('log.parquet'))\n"
        "except MissingFormat as error:\n"
        "    print(error)\n"
        "print(save_records([], Path('log.csv')))\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert said.stdout == 'Parquet needs pyarrow: pip install "hiringhall[parquet]"\n0\n'
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


def test_times_keep_every_microsecond() -> None:
    for at_us in (1, 999_999, NOW_US + 123_457, 253_402_300_799_999_999):
        record = ended_record(end(1, ended_us=at_us))
        assert record.ended is not None
        assert as_microseconds(record.ended) == at_us
    assert ended_record(end(1, ended_us=1)).created == datetime(1970, 1, 1, tzinfo=UTC), "before all time"
