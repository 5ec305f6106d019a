"""A page of rows is converted by column: it gives what each row gives by itself, and has the same bad rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from store_rows import TERMS

from hiringhall.core.states import DONE, FAILED, LEASED, QUEUED
from hiringhall.storage.rows import decode, end_row, end_rows, job_row, job_rows, pack

if TYPE_CHECKING:
    from hiringhall.storage.rows import BadId, RawRow

KNOWN = {1: TERMS, 2: TERMS.replace(priority=0)}
TRIES = bytes(pack(((1, 2, b"worker", 0, "native"),)))
PARENTS = bytes(pack((7, (b"queue", b"key"))))
EXTRAS = bytes(pack({"label": b"x"}))


def raw_job(number: int, **changed: Any) -> RawRow:
    row: dict[str, Any] = {
        "id": number,
        "queue": b"q",
        "key": b"",
        "payload": b"p",
        "terms": 1,
        "state": QUEUED,
        "created_us": 1,
        "due_us": 0,
        "attempts": 0,
        "failures": 0,
        "losses": 0,
        "parents": None,
        "extras": None,
        "ready_us": 1,
        "started_us": 0,
        "holder": b"",
        "worker": b"",
        "tries": None,
        "flow": None,
        "all_parents": None,
        "dialect": b"gearman",
    }
    assert row.keys() >= changed.keys()
    return tuple({**row, **changed}.values())


def raw_end(number: int, **changed: Any) -> RawRow:
    row: dict[str, Any] = {
        "id": number,
        "queue": b"q",
        "key": b"",
        "state": DONE,
        "code": 0,
        "result": b"r",
        "worker": b"w",
        "created_us": 1,
        "started_us": 2,
        "ended_us": 3,
        "attempts": 1,
        "losses": 0,
        "terms": 1,
        "payload": b"",
        "extras": None,
        "ready_us": 1,
        "tries": None,
        "payload_cut": 0,
        "flow": None,
        "all_parents": None,
        "dialect": b"dwork",
    }
    assert row.keys() >= changed.keys()
    return tuple({**row, **changed}.values())


RICH = {"extras": EXTRAS, "tries": TRIES, "flow": b"f", "all_parents": PARENTS, "terms": 2, "dialect": b""}
BAD = ({"tries": b"torn"}, {"extras": b"torn"}, {"all_parents": b"torn"}, {"terms": 3}, {"state": 99})
MORE_BAD = ({"queue": None}, {"id": 2.0}, {"dialect": "text"}, {"key": bytearray(b"text")}, {"flow": 1})


@pytest.mark.parametrize("changed", [{}, RICH, *BAD, *MORE_BAD])
def test_jobs_by_column_are_the_jobs_by_row(changed: dict[str, Any]) -> None:
    page = [raw_job(1), raw_job(2, **changed), raw_job(3, state=LEASED, parents=PARENTS, tries=TRIES)]
    bad: list[BadId] = []
    bad_by_row: list[BadId] = []
    assert job_rows(page, KNOWN, bad) == decode(page, job_row, KNOWN, bad_by_row)
    assert bad == bad_by_row
    assert bool(bad) == (changed in BAD or changed in MORE_BAD)


@pytest.mark.parametrize("changed", [{}, RICH, *BAD, *MORE_BAD])
def test_lines_by_column_are_the_lines_by_row(changed: dict[str, Any]) -> None:
    page = [raw_end(1), raw_end(2, **changed), raw_end(3, state=FAILED, payload=b"p", tries=TRIES)]
    bad: list[BadId] = []
    bad_by_row: list[BadId] = []
    assert end_rows(page, KNOWN, bad) == decode(page, end_row, KNOWN, bad_by_row)
    assert bad == bad_by_row
    assert bool(bad) == (changed in BAD or changed in MORE_BAD)


def test_a_page_without_rows_is_empty() -> None:
    assert (job_rows([], KNOWN, []), end_rows([], KNOWN, [])) == ([], [])
