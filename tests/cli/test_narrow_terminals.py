"""The listings of `hall` fit the terminal, with keys and worker names as long as real ones."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Final

import pytest
from history_stage import SECOND_US, TERMS
from rich.cells import cell_len
from running import HALL, run
from typer.testing import CliRunner

from hiringhall.cli.main import app
from hiringhall.core.changes import Batch, EndRow, JobRow
from hiringhall.core.states import DONE, HELD
from hiringhall.schedules.book import Book
from hiringhall.schedules.plan import Plan
from hiringhall.storage.contract import Retention
from hiringhall.storage.data_folder import DataFolder
from hiringhall.storage.sqlite import DATABASE, SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

COUNT: Final = 120
"""More records than the widths of the columns are taken from."""
FIRST_ID: Final = (1 << 36) + 1
KEYS: Final = [str(uuid.UUID(int=(number << 64) + number)) for number in range(COUNT)]
WORKER: Final = f"worker-{uuid.UUID(int=7)}"
LONG_QUEUE: Final = "a-queue-whose-name-does-not-fit-the-first-line-at-80"
RESULT: Final = "the result " * 30
WIDTHS: Final = (50, 60, 80, 100, 160, 240)
PLAN: Final = Plan(
    name="nightly-report-for-the-whole-company",
    queue="reports.nightly.company",
    key="{due:%Y-%m-%d}-123e4567-e89b-12d3-a456-426614174000",
    cron="30 3 * * MON-FRI",
    timezone="America/Argentina/Buenos_Aires",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with ended jobs, one unfinished job and two schedules."""
    folder = tmp_path_factory.mktemp("narrow") / "hall-data"
    now_us = time.time_ns() // 1000
    store = SqliteStore(folder / DATABASE, Retention(), print)
    store.load(0)
    batch = Batch()
    batch.ends += [_end(number, now_us - (COUNT - number) * SECOND_US) for number in range(COUNT)]
    parents = ((b"mail", KEYS[1].encode()),)
    held = JobRow(
        FIRST_ID + COUNT, b"mail", KEYS[0].encode(), b"", TERMS, HELD, now_us, 0, 0, 0, 0, parents, None
    )
    batch.inserts.append(held)
    store.commit(batch, now_us)
    store.close()
    book = Book(DataFolder(folder))
    book.add(PLAN)
    book.add(Plan(name="short", queue="q", every_us=3600 * SECOND_US))
    return folder


def _end(number: int, ended_us: int) -> EndRow:
    queue = LONG_QUEUE if number == 0 else "mail"
    result = RESULT if number % 2 else "ok"
    return EndRow(
        FIRST_ID + number,
        queue.encode(),
        KEYS[number].encode(),
        DONE,
        0,
        result.encode(),
        WORKER.encode(),
        ended_us,
        ended_us,
        ended_us,
        1,
        0,
        TERMS,
        b"",
        None,
        0,
        (),
    )


def shown(width: int, *words: str) -> str:
    ended = CliRunner().invoke(app, words, env={"COLUMNS": str(width)})
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def flat(text: str) -> str:
    """Without the line ends and blanks that wrapping puts in."""
    return "".join(text.split())


@pytest.mark.parametrize("width", WIDTHS)
def test_a_history_with_uuid_keys_fits_the_terminal_and_shows_every_key(folder: Path, width: int) -> None:
    text = shown(width, "history", "--data", str(folder), "--limit", str(COUNT))
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= width
    assert lines[0].split()[:4] == ["id", "when", "state", "queue"]
    whole = flat(text)
    assert [key for key in KEYS if key not in whole] == []
    assert whole.count(WORKER) == COUNT
    assert LONG_QUEUE in whole
    results = text.count("…")
    assert results == COUNT // 2, "each long result is cut, with a mark"


def test_at_80_columns_each_record_takes_three_lines(folder: Path) -> None:
    words = ("history", "--data", str(folder), "--limit", "1", "--before", str(FIRST_ID + COUNT - 1))
    heading, first, second, third = shown(80, *words).splitlines()
    assert heading.split() == ["id", "when", "state", "queue"]
    number, _, _, state, queue = first.split()
    assert (number, state, queue) == (str(FIRST_ID + COUNT - 2), "done", "mail")
    assert second == f"    key: {KEYS[COUNT - 2]}  code: 0  tries: 1"
    assert third == f"    worker: {WORKER}  result: ok"


def test_a_job_that_waits_says_so_at_80_columns(folder: Path) -> None:
    text = shown(80, "history", "--data", str(folder), "--state", "held")
    assert text.endswith(f"    pending: waits for mail {KEYS[1]}\n")
    assert "code:" not in text


def test_a_pipe_gets_one_line_for_each_record(folder: Path) -> None:
    ended = run(HALL, "history", "--limit", "10", cwd=folder.parent)
    lines = ended.stdout.splitlines()
    assert len(lines) == 11
    assert all(key in line for key, line in zip(KEYS[:-11:-1], lines[1:], strict=True))


@pytest.mark.parametrize("width", WIDTHS)
def test_the_list_of_schedules_fits_the_terminal_and_shows_everything(folder: Path, width: int) -> None:
    text = shown(width, "schedule", "list", "--data", str(folder))
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text
    whole = flat(text)
    for value in (PLAN.name, PLAN.queue, PLAN.key, flat(PLAN.cron), PLAN.timezone, "every1h"):
        assert value in whole, value


def test_a_pipe_gets_schedules_as_a_table(folder: Path) -> None:
    heading, first, *_ = run(HALL, "schedule", "list", cwd=folder.parent).stdout.splitlines()
    assert heading.split() == ["name", "when", "zone", "queue", "key", "defined", "last", "behind", "next"]
    assert PLAN.name in first
    assert PLAN.key in first
    assert "not begun" in first


def test_a_row_that_is_wider_than_those_before_takes_several_lines(folder: Path) -> None:
    lines = shown(170, "history", "--data", str(folder), "--limit", str(COUNT)).splitlines()
    assert len(lines) > COUNT + 1
    assert max(map(cell_len, lines)) <= 170
    assert lines[1].split()[5] == KEYS[COUNT - 1], "rows that fit take one line"
    assert lines[-1].startswith("    "), "the last has a longer queue"
