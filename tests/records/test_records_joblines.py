"""Unfinished jobs are written down and read again; what somebody else wrote is checked, line by line."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records_rows import NOW_US, job

from hiringhall.core.changes import JobRow  # noqa: TC001 (hypothesis looks at it)
from hiringhall.core.needs import SKILL_MAX, TIME_US_MAX
from hiringhall.core.states import DELAYED, HELD, LEASED, QUEUED
from hiringhall.core.terms import HOLD, LOW, PRIORITIES, Terms
from hiringhall.records import joblines
from hiringhall.records.joblines import ReadJobs, read_jobs, write_job

NAMES = st.binary(min_size=1, max_size=6)
NUMBERS = st.integers(0, 1 << 62)
CALENDAR_US = 253_402_300_799_999_999
PARENTS = st.lists(st.tuples(NAMES, NAMES), max_size=3, unique=True)
TERMS = st.builds(
    Terms,
    priority=st.integers(0, PRIORITIES - 1),
    durable=st.just(True),
    detached=st.just(True),
    failures_max=NUMBERS,
    backoff_us=NUMBERS,
    backoff_max_us=NUMBERS,
    losses_max=NUMBERS,
    lease_us=NUMBERS,
    run_us=NUMBERS,
    on_parent_failure=st.integers(0, HOLD),
    expire_us=NUMBERS,
    skill=st.integers(0, SKILL_MAX),
    takes_us=st.integers(0, TIME_US_MAX),
    quits_max=NUMBERS,
    keep_us=st.integers(0, TIME_US_MAX),
    key_is_work=st.booleans(),
)
ROWS = st.builds(
    job,
    st.integers(1, (1 << 62)),
    queue=NAMES,
    key=st.binary(max_size=6),
    payload=st.binary(max_size=20) | st.text(max_size=20).map(str.encode),
    terms=TERMS,
    state=st.sampled_from((HELD, DELAYED, QUEUED, LEASED)),
    due_us=st.just(0) | st.integers(1, CALENDAR_US),
    parents=PARENTS.map(tuple),
    extras=st.none() | st.dictionaries(st.text(max_size=5), st.binary(max_size=5), min_size=1),
)


def read(*lines: bytes | dict[str, object]) -> ReadJobs:
    return read_jobs(
        io.BytesIO(
            b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
        )
    )


@given(ROWS)
def test_a_job_is_the_same_after_the_journey(row: JobRow) -> None:
    line = write_job(row)
    assert line.count(b"\n") == 1
    if (row.queue, row.key) in row.parents:
        assert read(line).problems == [(1, "it depends on itself, through lines 1")]
        return
    ((number, old_id, spec),) = read(line).jobs
    assert (number, old_id) == (1, row.id)
    assert (spec.queue, spec.key, spec.payload) == (row.queue, row.key, row.payload)
    assert spec.terms.as_tuple() == row.terms.as_tuple()
    assert (spec.due_us, spec.parents, spec.extras) == (row.due_us, row.parents, row.extras)


def test_text_stays_readable() -> None:
    row = job(7, queue=b"mail", key=b"k", payload="für Änne".encode(), state=DELAYED, due_us=NOW_US)
    line = json.loads(write_job(row._replace(terms=Terms(priority=LOW, durable=True, detached=True))))
    assert line["payload"] == "für Änne"
    assert line["due"] == "2025-10-09T08:53:20+00:00"
    assert (line["state"], line["terms"]["priority"]) == ("delayed", "low")


def test_the_shortest_line_that_a_person_can_write() -> None:
    ((number, old_id, spec),) = read(b"\n", b"  \n", {"queue": "mail"}).jobs
    assert (number, old_id) == (3, None)
    assert (spec.queue, spec.key, spec.payload, spec.due_us, spec.parents) == (b"mail", b"", b"", 0, ())
    assert spec.terms.as_tuple() == Terms(durable=True, detached=True).as_tuple()


def test_the_mark_that_some_editors_begin_a_file_with_is_passed_over() -> None:
    jobs, problems = read(b"\xef\xbb\xbf", {"queue": "mail"}, {"queue": "post"})
    assert (problems, [job.spec.queue for job in jobs]) == ([], [b"mail", b"post"])


def test_a_job_may_need_as_much_as_the_core_lets_it() -> None:
    assert (joblines.SKILL_MAX, joblines.TIME_US_MAX) == (SKILL_MAX, TIME_US_MAX)


def test_jobs_that_share_their_terms_share_one_object() -> None:
    jobs = read({"queue": "a", "terms": {"run_us": 5}}, {"queue": "b", "terms": {"run_us": 5}}).jobs
    assert jobs[0].spec.terms is jobs[1].spec.terms


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"nonsense\n", "JSON is malformed"),
        (b'{"queue":"mail"\n', "Input data was truncated"),
        (b"[]\n", "Expected `object`, got `array`"),
        (b'{"queue":"\xff"}\n', "utf-8"),
        ({}, "the queue is missing"),
        ({"queue": ""}, "the queue is missing"),
        ({"queue": 7}, "Expected `str | null`, got `int` - at `$.queue`"),
        ({"queue": "a", "queue_base64": "YQ=="}, "queue is given as text and in base64"),
        ({"queue": "a", "payload_base64": "?"}, "Invalid base64 encoded string - at `$.payload_base64`"),
        ({"queue": "a", "quee": "a"}, "Object contains unknown field `quee`"),
        ({"queue": "a", "id": -1}, "at `$.id`"),
        (
            {"queue": "a", "due": "soon"},
            "Invalid RFC3339 encoded datetime - at `$.due`; write it as in 2026-03-01T12:30:00+00:00",
        ),
        ({"queue": "a", "due": "2026-01-01T00:00:00"}, "at `$.due`"),
        (
            {"queue": "a", "terms": {"priority": "top"}},
            "Invalid enum value 'top' - at `$.terms.priority`; it must be one of high, normal, low",
        ),
        (
            {"queue": "a", "terms": {"on_parent_failure": "cry"}},
            "at `$.terms.on_parent_failure`; it must be one of fail, run, hold",
        ),
        ({"queue": "a", "terms": {"skill": SKILL_MAX + 1}}, "at `$.terms.skill`"),
        ({"queue": "a", "terms": {"takes_us": TIME_US_MAX + 1}}, "at `$.terms.takes_us`"),
        ({"queue": "a", "terms": {"keep_us": TIME_US_MAX + 1}}, "at `$.terms.keep_us`"),
        ({"queue": "a", "terms": {"run_us": -1}}, "at `$.terms.run_us`"),
        ({"queue": "a", "terms": {"durable": False}}, "unknown field `durable`"),
        ({"queue": "a", "parents": [{}]}, "a parent must have an id, or a queue and a key"),
        ({"queue": "a", "parents": [{"queue": "a"}]}, "a parent must have an id, or a queue and a key"),
        ({"queue": "a", "parents": [{"id": 1, "key": "a"}]}, "a parent must have an id, or a queue and a key"),
        ({"queue": "a", "parents": [{"id": 1}]}, "its parent 1 is not in the file"),
        ({"queue": "a", "id": 1, "parents": [{"id": 1}]}, "it depends on itself, through lines 1"),
        (
            {"queue": "a", "extras": {"x": "1"}, "extras_base64": {"x": "MQ=="}},
            "extras and extras_base64 have the same name",
        ),
    ],
)
def test_a_bad_line_is_told_with_its_number(line: bytes | dict[str, object], complaint: str) -> None:
    ((number, text),) = read(line).problems
    assert number == 1
    assert complaint in text


def test_all_problems_are_told_at_once() -> None:
    _, problems = read({"queue": "a"}, b"{\n", {"queue": "b"}, {"q": "b"}, b"[]\n")
    assert [number for number, _ in problems] == [2, 4, 5]
    _, problems = read({"queue": "a", "id": 1}, {"queue": "b", "id": 1}, {"queue": "c", "parents": [{"id": 9}]})
    assert problems == [
        (2, "its id 1 is already used on line 1"),
        (3, "its parent 9 is not in the file; remove it from the parents"),
    ]


def test_a_line_without_end_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hiringhall.records.joblines.LINE_BYTES_MAX", 100)
    _, problems = read({"queue": "a"}, b'{"queue":"' + b"a" * 100 + b'"}\n', b"nonsense\n")
    assert problems == [(2, "the line is longer than 100 bytes; reading stopped here")]


def test_parents_come_before_their_children() -> None:
    jobs, problems = read(
        {"queue": "late", "id": 3, "parents": [{"id": 2}, {"queue": "mail", "key": "first"}]},
        {"queue": "middle", "id": 2, "parents": [{"queue": "mail", "key": "first"}]},
        {"queue": "alone"},
        {"queue": "mail", "key": "first"},
        {"queue": "later", "parents": [{"queue": "elsewhere", "key": "unknown"}]},
    )
    assert problems == []
    order = [job.spec.queue for job in jobs]
    assert order.index(b"mail") < order.index(b"middle") < order.index(b"late")
    assert sorted(order) == [b"alone", b"late", b"later", b"mail", b"middle"]


def test_jobs_without_parents_keep_their_order() -> None:
    jobs, _ = read(*(b'{"queue":"q","key":"%d"}\n' % number for number in range(1000)))
    assert [job.line for job in jobs] == list(range(1, 1001))


def test_jobs_that_wait_for_one_another_are_told() -> None:
    _, problems = read(
        {"queue": "a", "key": "1", "parents": [{"id": 2}]},
        {"queue": "a", "id": 5},
        {"queue": "a", "id": 2, "parents": [{"queue": "a", "key": "1"}]},
    )
    assert problems == [(1, "it depends on itself, through lines 1, 3")]
