"""Jobs by HTTP: submitted, waited for, cancelled, retried, and seen as they change."""

from __future__ import annotations

import base64
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx
    from native_peer import NativePeer
    from web_process import WebHall


def submit(api: httpx.Client, **job: Any) -> str:
    answer = api.post("/jobs", json=job)
    assert answer.status_code == 201, answer.text
    [number] = answer.json()["ids"]
    assert isinstance(number, str)
    return number


@pytest.fixture
def peer(hall: WebHall) -> Iterator[NativePeer]:
    with hall.native() as peer:
        yield peer


def work(peer: NativePeer, queue: str) -> None:
    peer.ask("work", [b"bob", 1, [[queue.encode(), 0, 0]], -1, 0])


def assigned(peer: NativePeer, queue: str) -> list[Any]:
    """Be a worker of the queue, and take the next job."""
    work(peer, queue)
    found: list[Any] = peer.hear("assign")
    return found


def test_a_job_is_submitted_done_and_its_result_is_there(api: httpx.Client, peer: NativePeer) -> None:
    number = submit(api, queue="plain", payload="hello", key="k1")
    lease, job_id, queue, payload, key, attempt, _ = assigned(peer, "plain")
    assert (str(job_id), queue, payload, key, attempt) == (number, b"plain", b"hello", b"k1", 1)
    running = api.get(f"/jobs/{number}").json()
    assert (running["state"], running["situation"], running["worker"]) == ("running", "running", "bob")
    peer.ask("finish", [lease, b"\xff\x00result"])
    result = api.get(f"/jobs/{number}/result")
    assert result.content == b"\xff\x00result"
    assert result.headers["content-type"] == "application/octet-stream"
    assert result.headers["content-disposition"].startswith("attachment")
    job = api.get(f"/jobs/{number}").json()
    assert (job["state"], job["payload"], job["result_bytes"]) == ("done", "hello", 8)
    assert base64.b64decode(job["result_base64"]) == b"\xff\x00result"
    assert api.get(f"/jobs/{number}/payload").content == b"hello"


def test_many_jobs_are_submitted_at_once_with_their_terms(api: httpx.Client) -> None:
    jobs = [
        {
            "queue": "many",
            "json": {"n": 1},
            "priority": "high",
            "retries": 3,
            "backoff_s": 2.5,
            "timeout_s": 60,
        },
        {"queue": "many", "payload_base64": "/wA=", "delay_s": 1000},
        {"queue": "many", "at": "2040-01-01T00:00:00Z"},
    ]
    answer = api.post("/jobs", json={"jobs": jobs})
    assert answer.status_code == 201
    first, second, third = (api.get(f"/jobs/{number}").json() for number in answer.json()["ids"])
    assert first["payload"] == '{"n":1}'
    assert (first["priority"], first["attempts_max"]) == ("high", 4)
    assert first["terms"]["backoff_s"] == 2.5
    assert first["terms"]["timeout_s"] == 60.0
    assert (second["situation"], second["payload_base64"]) == ("delayed", "/wA=")
    assert third["due"].startswith("2040-01-01T00:00:00")


def test_a_list_has_the_first_hundred_characters_of_a_payload(api: httpx.Client) -> None:
    jobs = [{"queue": "begun", "payload": payload} for payload in ("short", "\U0001f4e6" * 1000)]
    api.post("/jobs", json={"jobs": jobs}).raise_for_status()
    short, long = api.get("/jobs", params={"queue": "begun"}).json()["items"]
    assert (short["payload"], long["payload"]) == ("short", "\U0001f4e6" * 100)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"payload": "x"}, "queue is missing"),
        ({"queue": "q", "payload": "x", "json": 1}, "json: give one of"),
        ({"queue": "q", "payload": "x", "payload_base64": "eA=="}, "payload and payload_base64"),
        ({"queue": "q", "payload_base64": "!"}, "Expected base64 - at `$.payload_base64`"),
        ({"queue": "q", "at": "2040-01-01T00:00:00Z", "delay_s": 1}, "at: give one of"),
        ({"queue": "q", "colour": "red"}, "colour"),
        ({"queue": "q", "retries": -1}, "$.retries"),
        ({"jobs": []}, "$.jobs"),
        ({"jobs": [{"queue": "q"}], "queue": "q"}, "jobs: the fields of a job"),
        ({"jobs": [{"queue": "q"}, {"queue": "q", "durable": False}]}, "durable"),
        ({"jobs": [{"queue": "q"}, {}]}, "jobs[1].queue is missing"),
        ({"queue": "q", "parents": ["0"]}, "parents"),
        ({"queue": "q" * 600}, "queue"),
        ([], "the body is not as required"),
    ],
)
def test_a_submit_that_is_wrong_is_refused_and_the_field_is_named(
    api: httpx.Client, body: object, named: str
) -> None:
    answer = api.post("/jobs", json=body)
    assert answer.status_code in (400, 409, 413)
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert named in problem["detail"]


def test_a_job_waits_for_its_parent(api: httpx.Client) -> None:
    parent = submit(api, queue="family")
    child = submit(api, queue="family", parents=[parent])
    job = api.get(f"/jobs/{child}").json()
    assert job["situation"] == "held"
    assert job["parents"] == [{"id": parent, "queue": "family", "key": "", "state": "queued"}]
    assert api.get(f"/jobs/{parent}").json()["children"] == [child]


def test_a_result_that_is_not_there_yet_is_waited_for(api: httpx.Client, hall: WebHall) -> None:
    number = submit(api, queue="patient")
    early = api.get(f"/jobs/{number}/result")
    assert early.status_code == 202
    assert early.json()["id"] == number
    answers: list[httpx.Response] = []

    def wait() -> None:
        with hall.api() as other:
            answers.append(other.get(f"/jobs/{number}/result", params={"wait": 60}))

    waiter = threading.Thread(target=wait)
    waiter.start()
    with hall.native() as peer:
        lease = assigned(peer, "patient")[0]
        peer.ask("finish", [lease, b"at last"])
        waiter.join(30)
    assert [answer.content for answer in answers] == [b"at last"]


def test_a_job_that_failed_has_no_result_but_an_error_and_can_be_retried(
    api: httpx.Client, peer: NativePeer
) -> None:
    number = submit(api, queue="frail")
    lease = assigned(peer, "frail")[0]
    failure = {"type": "ValueError", "text": "no", "traceback": "line 1"}
    peer.ask("fail", [lease, 7, json.dumps(failure).encode(), False])
    answer = api.get(f"/jobs/{number}/result")
    assert (answer.status_code, answer.json()["code"]) == (409, "job_failed")
    assert "ValueError: no" in answer.json()["detail"]
    job = api.get(f"/jobs/{number}").json()
    assert (job["state"], job["code"], job["error"]) == ("failed", 7, failure)
    peer.ask("slots", [0])
    assert api.post(f"/jobs/{number}/retry").json()["state"] == "queued"
    again = api.post(f"/jobs/{number}/retry")
    assert (again.status_code, again.json()["code"]) == (409, "wrong_state")


def test_a_job_is_cancelled_with_a_reason(api: httpx.Client) -> None:
    number = submit(api, queue="unwanted")
    job = api.post(f"/jobs/{number}/cancel", json={"reason": "not needed"}).json()
    assert (job["state"], job["result"]) == ("cancelled", "not needed")
    answer = api.get(f"/jobs/{number}/result")
    assert (answer.status_code, answer.json()["code"]) == (409, "job_cancelled")
    assert api.post(f"/jobs/{number}/cancel").status_code == 409


def test_an_unknown_job_is_a_404_everywhere(api: httpx.Client) -> None:
    for path in ("", "/result", "/payload", "/output", "/events"):
        answer = api.get(f"/jobs/99{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown_job"), path
    for path in ("/cancel", "/retry"):
        assert api.post(f"/jobs/99{path}").status_code == 404
    assert api.get("/jobs/x").status_code == 400


def test_the_events_of_a_job_are_its_state_its_output_and_its_end_and_go_on_where_they_were(
    api: httpx.Client, peer: NativePeer
) -> None:
    number = submit(api, queue="talker")
    seen: list[tuple[str, dict[str, Any], str]] = []
    with api.stream("GET", f"/jobs/{number}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        events = read_events(stream)
        seen.append(next(events))
        lease = assigned(peer, "talker")[0]
        seen.append(next(events))
        peer.ask("log", [lease, b"line 1"])
        peer.ask("progress", [lease, 1, 2, 0])
        while not any(kind == "output" for kind, _, _ in seen):
            seen.append(next(events))
    position = next(number for kind, _, number in seen if kind == "output")
    peer.ask("chunk", [lease, b"\xffdata", False])
    peer.ask("finish", [lease, b""])
    with api.stream("GET", f"/jobs/{number}/events", headers={"Last-Event-ID": position}) as stream:
        later = list(read_events(stream))
    assert [data["state"] for kind, data, _ in seen[:2] if kind == "state"] == ["queued", "running"]
    lines = [line for kind, data, _ in seen + later if kind == "output" for line in data["lines"]]
    assert [(line["kind"], line["text"]) for line in lines] == [("log", "line 1"), ("data", "\ufffddata")]
    assert later[-1][0] == "ended"
    assert later[-1][1]["state"] == "done"


def read_events(stream: httpx.Response) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The events of a stream: kind, data and id."""
    kind = data = number = ""
    for line in stream.iter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            data = value
        elif name == "id":
            number = value
        elif not line and kind:
            yield kind, json.loads(data), number
            kind = data = number = ""
