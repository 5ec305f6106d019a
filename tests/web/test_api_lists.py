"""Lists by HTTP: filters, pages, counts, downloads, and what is refused."""

from __future__ import annotations

import base64
import csv
import io
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import httpx
    from web_process import WebHall

FORMULAS = ("=1+1", "+1", "-1", "@x", "\t=1", "'quoted")


@pytest.fixture(scope="module", autouse=True)
def some_jobs(hall: WebHall) -> dict[str, list[str]]:
    """Live jobs in two queues, and ended ones."""
    with hall.api() as api:

        def submit(jobs: list[dict[str, Any]]) -> list[str]:
            answer = api.post("/jobs", json={"jobs": jobs})
            assert answer.status_code == 201, answer.text
            ids: list[str] = answer.json()["ids"]
            return ids

        live = submit(
            [{"queue": "list.a", "key": f"key-{place}", "payload": f"p{place}"} for place in range(25)]
        )
        live += submit([{"queue": "list.b", "payload": "Needle in it", "delay_s": 999}])
        ended = submit([{"queue": "list.ended", "key": text} for text in FORMULAS])
        for number in ended:
            assert api.post(f"/jobs/{number}/cancel", json={"reason": "=cancelled"}).status_code == 200
        return {"live": live, "ended": ended}


def ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


def test_pages_of_jobs_fit_together(api: httpx.Client, some_jobs: dict[str, list[str]]) -> None:
    found: list[str] = []
    cursor = ""
    while True:
        page = api.get("/jobs", params={"queue": "list.a", "limit": 10, "cursor": cursor})
        assert len(ids(page)) <= 10
        found += ids(page)
        cursor = page.json()["next"]
        if cursor is None:
            break
    assert found == some_jobs["live"][:25]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"queue": "list.a"}, 25),
        ({"queue": "list.a", "key": "key-7"}, 1),
        ({"queue": "list.b", "text": "needle"}, 1),
        ({"queue": "list.b", "text": "nothing"}, 0),
        ({"queue": "list.b", "state": "delayed"}, 1),
        ({"queue": "list.b", "situation": "ready"}, 0),
        ({"queue": "list.a", "situation": "no_workers"}, 25),
        ({"queue": "list.a", "from": "2040-01-01T00:00:00Z"}, 0),
        ({"queue": "list.a", "to": "2040-01-01T00:00:00Z"}, 25),
        ({"queue": "none such"}, 0),
    ],
)
def test_a_list_and_its_count_agree(api: httpx.Client, query: dict[str, str], count: int) -> None:
    assert len(ids(api.get("/jobs", params={**query, "limit": 1000}))) == count
    for wait in ({}, {"wait": "5"}):
        assert api.get("/jobs/count", params={**query, **wait}).json() == {"count": count, "complete": True}


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"queue": "list.ended"}, 6),
        ({"queue": "list.ended", "state": "cancelled"}, 6),
        ({"queue": "list.ended", "state": "done"}, 0),
        ({"queue": "list.ended", "key": "@x"}, 1),
        ({"queue": "list.ended", "text": "QUOTED"}, 1),
        ({"queue": "list.ended", "from": "2040-01-01T00:00:00Z"}, 0),
        ({"queue": "list.ended", "to": "2040-01-01T00:00:00Z"}, 6),
    ],
)
def test_the_history_has_filters_and_a_count(api: httpx.Client, query: dict[str, str], count: int) -> None:
    assert len(ids(api.get("/history", params=query))) == count
    for wait in ({}, {"wait": "5"}):
        assert api.get("/history/count", params={**query, **wait}).json() == {"count": count, "complete": True}


def test_pages_of_the_history_fit_together(api: httpx.Client, some_jobs: dict[str, list[str]]) -> None:
    first = api.get("/history", params={"queue": "list.ended", "limit": 4})
    second = api.get("/history", params={"queue": "list.ended", "limit": 4, "cursor": first.json()["next"]})
    assert ids(first) + ids(second) == some_jobs["ended"][::-1]
    assert second.json()["next"] is None


def test_no_cell_of_a_download_is_a_formula(api: httpx.Client, some_jobs: dict[str, list[str]]) -> None:
    answer = api.get("/history", params={"queue": "list.ended", "format": "csv", "limit": 2})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="history.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert [row["id"] for row in rows] == some_jobs["ended"][::-1]
    assert [row["key"] for row in rows] == [f"'{text}" for text in FORMULAS[::-1]]
    assert {row["result"] for row in rows} == {"'=cancelled"}


def test_a_list_is_downloaded_whole_as_json(api: httpx.Client, some_jobs: dict[str, list[str]]) -> None:
    answer = api.get("/jobs", params={"queue": "list.a", "format": "json", "limit": 3})
    assert answer.headers["content-disposition"] == 'attachment; filename="jobs.json"'
    assert [item["id"] for item in answer.json()] == some_jobs["live"][:25]
    assert api.get("/jobs", params={"queue": "none such", "format": "json"}).json() == []


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/jobs?limit=0", "limit"),
        ("/jobs?limit=1001", "limit"),
        ("/jobs?limit=x", "limit"),
        ("/jobs?limit=1&limit=2", "limit is given more than once"),
        ("/jobs?state=done", "state"),
        ("/jobs?from=yesterday", "from"),
        ("/jobs?from=2026-01-01T00:00:00", "from"),
        ("/jobs?cursor=x", "cursor"),
        ("/jobs?colour=red", "'colour' is not a parameter here"),
        ("/jobs?queue=%zz", "hexadecimal"),
        ("/jobs?state=%ff", "state"),
        ("/history?state=running", "state"),
        ("/history/chart?span=2h", "span"),
        ("/hall?x=1", "'x' is not a parameter here"),
        ("/graph", "job is missing"),
        ("/jobs?format=xml", "format"),
        (f"/jobs?text={'x' * 20_000}", "the query has more than"),
    ],
)
def test_a_parameter_that_is_wrong_is_refused_and_named(api: httpx.Client, path: str, named: str) -> None:
    answer = api.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert named in answer.json()["detail"]


def test_names_of_any_bytes_work_in_paths_and_queries(api: httpx.Client) -> None:
    name = b"a/b \xff%\xc3\xa4?"
    body = {"queue_base64": base64.b64encode(name).decode(), "payload": "x"}
    assert api.post("/jobs", json=body).status_code == 201
    step = "".join(f"%{byte:02x}" for byte in name)
    queue = api.get(f"/queues/{step}").json()
    assert queue["ready"] == 1
    assert queue["name"] == name.decode(errors="replace")
    assert base64.b64decode(queue["name_base64"]) == name
    assert len(ids(api.get(f"/jobs?queue={step}"))) == 1
    assert api.post(f"/queues/{step}/pause").json()["paused"] is True
    assert api.post(f"/queues/{step}/resume").json()["paused"] is False


def test_queues_are_found_by_a_part_of_their_name(api: httpx.Client) -> None:
    names = [queue["name"] for queue in api.get("/queues", params={"text": "list."}).json()["items"]]
    assert {"list.a", "list.b"} <= set(names)
    assert all("list." in name for name in names)
    assert api.get("/queues/none such").status_code == 404


def test_what_is_not_there_or_not_allowed_is_a_problem_document(api: httpx.Client) -> None:
    missing = api.get("/nothing")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    wrong = api.delete("/queues")
    assert (wrong.status_code, wrong.json()["code"]) == (405, "method_not_allowed")
    assert api.request("POST", "/queues/list.a/pause", json={"x": 1}).status_code == 400
    assert api.head("/queues").status_code == 200
