"""Somebody asks the result log from Python."""

from __future__ import annotations

import doctest
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from records_rows import FIRST_ID, NOW_US, SECOND_US, end, fill, job

from hiringhall import records
from hiringhall.core.states import CANCELLED, DELAYED, DONE, FAILED, HELD, LEASED, QUEUED
from hiringhall.records import STATES, Attempt, History
from hiringhall.records.history import PAGE_ROWS_MAX
from hiringhall.storage.contract import HistoryQuery, StoreError
from hiringhall.storage.sqlite import DATABASE

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow
    from hiringhall.records import Record

PAGE = Path(__file__).parents[2] / "docs" / "history.md"
NOW = datetime(2025, 10, 9, 8, 53, 20, tzinfo=UTC)


@pytest.fixture
def town(tmp_path: Path) -> Path:
    """Six lines of history, a second apart, and four live jobs."""
    ends = [
        end(1, key=b"one"),
        end(2, key=b"two", state=FAILED, code=3, payload=b"bad", result=b"not a picture"),
        end(3, queue=b"mail", key=b"one", state=CANCELLED),
        end(4, queue=b"mail"),
        end(5, key=b"\xff"),
        end(6, key=b"one"),
    ]
    ends = [row._replace(ended_us=NOW_US + row.id * SECOND_US) for row in ends]
    jobs = [
        job(7, key=b"one", state=LEASED, started_us=NOW_US + 7 * SECOND_US, worker=b"ben"),
        job(8, state=QUEUED),
        job(9, state=DELAYED, due_us=NOW_US + 3600 * SECOND_US, queue=b"mail"),
        job(10, state=HELD, parents=(8, (b"mail", b"later")), extras={"reducer": b"sum"}),
    ]
    return fill(tmp_path / "town", ends, jobs)


def ids(found: object) -> list[int]:
    assert hasattr(found, "__iter__")
    return [record.id for record in found]


def test_what_has_ended_comes_newest_first(town: Path) -> None:
    with History(town) as history:
        assert ids(history.find()) == [6, 5, 4, 3, 2, 1]
        assert history.count() == (4, 6)


def test_every_question_narrows_the_answer(town: Path) -> None:
    with History(town) as history:
        assert ids(history.find(queue="mail")) == [4, 3]
        assert ids(history.find(queue=b"mail", state="cancelled")) == [3]
        assert ids(history.find(state="failed")) == [2]
        assert ids(history.find(state="done", limit=2)) == [6, 5]
        assert ids(history.find(before_id=5, limit=2)) == [4, 3]
        assert ids(history.find(key=b"\xff")) == [5]
        assert ids(history.find(key="\udcff")) == [5], "as the command line brings it"
        assert ids(history.find(queue="mail", key="two")) == []
        assert ids(history.find(limit=0)) == []


def test_times_are_those_of_the_end_and_both_ends_count(town: Path) -> None:
    with History(town) as history:
        since, until = NOW + timedelta(seconds=2), NOW + timedelta(seconds=4)
        assert ids(history.find(since=since)) == [6, 5, 4, 3, 2]
        assert ids(history.find(until=until)) == [4, 3, 2, 1]
        assert ids(history.find(since=since, until=until, queue="resize")) == [2]
        vienna = timezone(timedelta(hours=2))
        assert ids(history.find(since=since.astimezone(vienna), until=until, state="done")) == [4]


def test_unfinished_jobs_are_found_by_their_state(town: Path) -> None:
    with History(town) as history:
        found = {state: ids(history.find(state=state)) for state in ("running", "queued", "delayed", "held")}
        assert found == {"running": [7], "queued": [8], "delayed": [9], "held": [10]}
        assert ids(history.find(state="running", since=NOW + timedelta(seconds=7))) == [7]
        assert ids(history.find(state="running", since=NOW + timedelta(seconds=8))) == []
        assert ids(history.find(state="queued", until=NOW)) == [8], "it came just then"
        assert ids(history.find(state="queued", queue="mail")) == []
        assert ids(history.find(state="held", before_id=10)) == []


def test_one_job_is_found_wherever_it_stands(town: Path) -> None:
    with History(town) as history:
        for job_id, state in ((2, "failed"), (7, "running"), (10, "held")):
            record = history.get(id=job_id)
            assert record is not None
            assert (record.id, record.state) == (job_id, state)
            assert history.get(handle=f"H:hall:{job_id}") == record
            assert history.get(handle=b"H:any.prefix:of-a-door:%d" % job_id) == record
        assert history.get(id=11) is None
        assert ids(history.find(id=7, state="done")) == []
        assert ids(history.find(id=7, state="running")) == [7]
        assert ids(history.find(id=2, state="running")) == []
        assert ids(history.find(id=2, queue="mail")) == []


def test_a_key_finds_the_live_job_before_the_earlier_ones(town: Path) -> None:
    with History(town) as history:
        assert ids(history.find(key="one")) == [7, 6, 3, 1]
        assert ids(history.find(key="one", limit=2)) == [7, 6]
        assert ids(history.find(key="one", before_id=7)) == [6, 3, 1]
        assert ids(history.find(key="one", state="done")) == [6, 1]
        assert ids(history.find(key="one", state="running")) == [7]


def test_a_record_tells_all_that_the_store_knows(tmp_path: Path) -> None:
    first = (NOW_US - 9 * SECOND_US, NOW_US - 8 * SECOND_US, b"cat", 125, "wmp")
    tries = (first, (NOW_US - 7, 0, b"\xfe", 123, ""))
    row = end(FIRST_ID, key=b"k", state=FAILED, code=3, result=b"\x00", payload=b"p", tries=tries)
    folder = fill(
        tmp_path, [row._replace(extras={"reducer": b"sum", "odd": b"\xff"}, losses=1, dialect="gearman")]
    )
    with History(folder) as history:
        record = history.get(id=FIRST_ID)
    assert record is not None
    assert record.tries == (
        Attempt(NOW - timedelta(seconds=9), NOW - timedelta(seconds=8), b"cat", 125, "wmp"),
        Attempt(NOW - timedelta(microseconds=7), None, b"\xfe", 123),
    )
    assert (record.created, record.started, record.ended) == (
        NOW - timedelta(seconds=3),
        NOW - timedelta(seconds=2),
        NOW,
    )
    assert record.latest == NOW
    assert record.as_json() == {
        "id": FIRST_ID,
        "state": "failed",
        "code": 3,
        "queue": "resize",
        "key": "k",
        "flow": "",
        "worker": "ann",
        "result": "\x00",
        "payload": "p",
        "payload_bytes": 1,
        "created": "2025-10-09T08:53:17+00:00",
        "due": None,
        "started": "2025-10-09T08:53:18+00:00",
        "ended": "2025-10-09T08:53:20+00:00",
        "priority": "normal",
        "retries": 0,
        "attempts": 3,
        "losses": 1,
        "dialect": "gearman",
        "tries": [
            {
                "started": "2025-10-09T08:53:11+00:00",
                "ended": "2025-10-09T08:53:12+00:00",
                "worker": "cat",
                "code": 125,
                "dialect": "wmp",
            },
            {
                "started": "2025-10-09T08:53:19.999993+00:00",
                "ended": None,
                "worker_base64": "/g==",
                "code": 123,
                "dialect": "",
            },
        ],
        "parents": [],
        "extras": {"reducer": "sum"},
        "extras_base64": {"odd": "/w=="},
        "output": [],
    }


def test_a_live_record_tells_what_it_waits_for(town: Path) -> None:
    with History(town) as history:
        delayed, held, running = (history.get(id=job_id) for job_id in (9, 10, 7))
    assert delayed is not None
    assert held is not None
    assert running is not None
    assert (delayed.due, delayed.ended, delayed.payload) == (NOW + timedelta(hours=1), None, b"a photo")
    assert held.as_json()["parents"] == [{"id": 8}, {"queue": "mail", "key": "later"}]
    assert held.extras == {"reducer": b"sum"}
    assert (running.worker, running.started) == (b"ben", NOW + timedelta(seconds=7))


def test_a_due_time_beyond_every_calendar_is_its_last_day(tmp_path: Path) -> None:
    with History(fill(tmp_path, jobs=[job(1, state=DELAYED, due_us=1 << 62)])) as history:
        record = history.get(id=1)
    assert record is not None
    assert record.due is not None
    assert record.due.year == 9999


@pytest.mark.parametrize(
    ("question", "complaint"),
    [
        ({"state": "lost"}, '"lost" is not a state; the states are done, failed'),
        ({"state": ""}, "is not a state"),
        ({"id": 0}, "0 is not a valid id"),
        ({"id": 1 << 63}, "is not a valid id"),
        ({"before_id": -1}, "-1 is not a valid id"),
        ({"limit": -1}, "limit -1 is not valid; it must be 0 or more, or None for all"),
        ({"handle": "H:hall:"}, '"H:hall:" is not a valid handle'),
        ({"handle": "12"}, "is not a valid handle"),
        ({"handle": "H:hall:012"}, "is not a valid handle"),
        ({"handle": "H:hall:9223372036854775808"}, "is not a valid handle"),
        ({"handle": "H:hall:1\n"}, "is not a valid handle"),
        ({"handle": b"H:\xff:1"}, "is not a valid handle"),
        ({"handle": "H:hall:2", "id": 1}, "the handle belongs to job 2, not to job 1"),
        ({"since": datetime(2026, 1, 1)}, "has no time zone"),  # noqa: DTZ001 (the mistake)
        ({"until": datetime(2026, 1, 1)}, "has no time zone"),  # noqa: DTZ001
    ],
)
def test_a_question_that_makes_no_sense_is_refused_at_once(
    town: Path, question: dict[str, object], complaint: str
) -> None:
    with History(town) as history, pytest.raises(ValueError, match=complaint):
        history.find(**question)  # type: ignore[arg-type]


def test_one_job_has_to_be_named(town: Path) -> None:
    with History(town) as history, pytest.raises(ValueError, match="give the id"):
        history.get()


def test_a_folder_without_a_history_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no history in"):
        History(tmp_path)


class CountingReader:
    """Notes how much was asked of the reader behind it."""

    def __init__(self, history: History) -> None:
        self._reader = history._reader
        self.pages: list[int] = []
        history._reader = self  # type: ignore[assignment]

    def page(self, query: HistoryQuery) -> tuple[list[EndRow], int | None]:
        page, last_id = self._reader.page(query)
        self.pages.append(len(page))
        return page, last_id

    def close(self) -> None:
        self._reader.close()


def test_a_long_history_is_read_as_it_is_asked_for(tmp_path: Path) -> None:
    count = 10_000
    folder = fill(tmp_path, [end(number, key=b"%d" % number) for number in range(1, count + 1)])
    with History(folder) as history:
        reader = CountingReader(history)
        found = history.find()
        assert reader.pages == []
        assert ids(islice(found, 3)) == [count, count - 1, count - 2]
        assert len(reader.pages) == 1
        assert ids(found) == list(range(count - 3, 0, -1))
        assert max(reader.pages) <= PAGE_ROWS_MAX
        assert sum(reader.pages) == count


def test_a_page_that_cannot_be_read_is_not_the_end(tmp_path: Path) -> None:
    folder = fill(tmp_path, [end(number) for number in range(1, 301)])
    with closing(sqlite3.connect(folder / DATABASE)) as file, file:
        file.execute("UPDATE history SET tries = x'c1' WHERE id BETWEEN 51 AND 299")
    with History(folder) as history:
        assert ids(history.find()) == [300, *range(50, 0, -1)]
        assert ids(history.find(before_id=300)) == list(range(50, 0, -1))
        assert ids(history.find(before_id=300, limit=3)) == [50, 49, 48]
        assert history.get(id=100) is None


def test_heavy_lines_come_in_small_pages(tmp_path: Path) -> None:
    heavy = bytes(1 << 18)
    ends = [end(number, result=heavy) for number in range(1, 131)]
    with History(fill(tmp_path, ends)) as history:
        reader = CountingReader(history)
        assert sum(1 for _ in history.find()) == 130
    assert reader.pages[0] == 100, "nobody could know"
    assert max(reader.pages[1:]) <= 16


def test_pages_fit_together_while_the_history_grows(tmp_path: Path) -> None:
    folder = fill(tmp_path, [end(number) for number in range(1, 501)])
    with History(folder) as history:
        found = history.find()
        first = ids(islice(found, 100))
        fill(folder, [end(number) for number in range(501, 601)])
        assert first + ids(found) == list(range(500, 0, -1))


def test_a_job_that_ends_between_two_looks_is_found_once(tmp_path: Path) -> None:
    folder = fill(tmp_path, [end(1, key=b"k")], [job(2, key=b"k"), job(3, key=b"k", queue=b"mail")])
    with History(folder) as history:
        real = history._reader

        class Ending:
            """Its job 2 ends once the live ones were looked at."""

            def latest(self, before_id: int | None) -> object:
                yield from list(real.latest(before_id))
                fill(folder, [end(2, key=b"k")])

            def page(self, query: HistoryQuery) -> tuple[list[EndRow], int | None]:
                return real.page(query)

            def close(self) -> None:
                real.close()

        history._reader = Ending()  # type: ignore[assignment]
        found: list[Record] = list(history.find(key="k"))
        assert [(record.id, record.state) for record in found] == [(3, "queued"), (2, "done"), (1, "done")]


def test_the_words_for_states_are_all_states() -> None:
    assert sorted(STATES.values()) == sorted([HELD, DELAYED, QUEUED, LEASED, DONE, FAILED, CANCELLED])


def test_the_example_of_the_package_runs(tmp_path: Path) -> None:
    ends = [
        end(FIRST_ID, key=b"photo-6"),
        end(FIRST_ID + 1, key=b"photo-7", state=FAILED, code=3, result=b"not a picture"),
    ]
    folder = fill(tmp_path, ends)
    finder = doctest.DocTestFinder(recurse=False)
    runner = doctest.DocTestRunner()
    (example,) = finder.find(records, "records", extraglobs={"data_folder": str(folder)})
    runner.run(example)
    assert (runner.summarize().failed, runner.summarize().attempted) == (0, 3)


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    ends = [
        end(FIRST_ID, key=b"photo-6", ended_us=time.time_ns() // 1000),
        end(FIRST_ID + 1, key=b"photo-7", state=FAILED, code=3, result=b"not a picture"),
    ]
    fill(tmp_path / "hall-data", ends)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    command = [sys.executable, "-c", program]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=True)
    assert said.stdout.splitlines() == [
        "b'photo-7' 3 b'not a picture'",
        "photo-6 is done: b'320x200'",
        "1 saved",
    ]
    assert (tmp_path / "resize.csv").read_text().count("\n") == 2
