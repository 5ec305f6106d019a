"""Changes of many jobs: exactly as many as were confirmed, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx
    from web_process import WebHall


def submit(api: httpx.Client, queue: str, count: int) -> list[str]:
    answer = api.post("/jobs", json={"jobs": [{"queue": queue} for _ in range(count)]})
    ids: list[str] = answer.json()["ids"]
    return ids


def fail_all(hall: WebHall, queue: str, count: int) -> None:
    """Make dead letters of all jobs of a queue."""
    with hall.native() as peer:
        peer.work(queue.encode(), slots=count)
        for _ in range(count):
            lease: Any = peer.hear("assign")[0]
            peer.ask("fail", [lease, 1, b"no", False])


def test_the_jobs_of_a_filter_are_cancelled_if_they_are_as_many_as_confirmed(api: httpx.Client) -> None:
    submit(api, "bulk.filter", 250)
    wrong = api.post("/jobs/cancel", json={"filter": {"queue": "bulk.filter"}, "expected": 249})
    assert (wrong.status_code, wrong.json()["code"]) == (409, "expected_differs")
    assert "250 jobs match now, and not 249" in wrong.json()["detail"]
    assert api.get("/queues/bulk.filter").json()["ready"] == 250
    right = api.post("/jobs/cancel", json={"filter": {"queue": "bulk.filter"}, "expected": 250})
    assert right.json() == {"changed": 250, "failed": [], "failed_count": 0}
    assert api.get("/history/count", params={"queue": "bulk.filter"}).json()["count"] == 250


def test_jobs_are_cancelled_by_their_ids_and_each_that_cannot_be_is_named(api: httpx.Client) -> None:
    first, second = submit(api, "bulk.ids", 2)
    assert api.post(f"/jobs/{first}/cancel").status_code == 200
    answer = api.post("/jobs/cancel", json={"ids": [first, second, second], "expected": 2}).json()
    assert (answer["changed"], answer["failed_count"]) == (1, 1)
    assert [(line["id"], line["code"]) for line in answer["failed"]] == [(first, "wrong_state")]


def test_all_dead_letters_of_a_queue_are_retried(api: httpx.Client, hall: WebHall) -> None:
    submit(api, "bulk.dead", 30)
    fail_all(hall, "bulk.dead", 30)
    assert api.get("/queues/bulk.dead").json()["failed"] == 30
    wrong = api.post("/queues/bulk.dead/retry", json={"expected": 3})
    assert wrong.status_code == 409
    answer = api.post("/queues/bulk.dead/retry", json={"expected": 30})
    assert answer.json() == {"retried": 30, "failed": [], "failed_count": 0}
    queue = api.get("/queues/bulk.dead").json()
    assert (queue["ready"], queue["failed"]) == (30, 0)
    assert api.post("/queues/bulk.dead/retry").json()["retried"] == 0


def test_dead_letters_are_retried_by_a_filter(api: httpx.Client, hall: WebHall) -> None:
    submit(api, "bulk.letters", 5)
    fail_all(hall, "bulk.letters", 5)
    body = {"filter": {"queue": "bulk.letters", "text": "NO"}, "expected": 5}
    assert api.post("/jobs/retry", json=body).json()["changed"] == 5


def test_a_bulk_change_says_which_jobs_are_meant(api: httpx.Client) -> None:
    for body, named in (
        ({"expected": 0}, "give filter or ids"),
        ({"expected": 0, "filter": {}, "ids": []}, "give one of filter and ids"),
        ({"filter": {}}, "expected"),
        ({"expected": 0, "filter": {"colour": "red"}}, "colour"),
    ):
        answer = api.post("/jobs/cancel", json=body)
        assert answer.status_code == 400
        assert named in answer.json()["detail"]
    done = api.post("/jobs/retry", json={"expected": 0, "filter": {"state": "done"}})
    assert done.status_code == 400
    assert "$.filter.state" in done.json()["detail"]
