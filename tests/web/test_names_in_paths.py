"""Every name has a path: also one that URL parsers resolve, and one that is not text."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

import pytest
from hall_process import wait_until

from hiringhall.web.steps import read_name, write_name

if TYPE_CHECKING:
    import httpx
    from web_process import WebHall

NAMES: Final = (b".", b"..", b"...", b"%2e%2e", b"a/b", b"\\", b"base64:Li4", b"raw\xff\xfe", b"?#&+ %", b"-_~")
COUNT: Final = 3


def fail_all(hall: WebHall, queue: bytes) -> None:
    with hall.native() as peer:
        peer.work(queue, slots=COUNT)
        for _ in range(COUNT):
            peer.ask("fail", [peer.hear("assign")[0], 1, b"no", False])


@pytest.mark.parametrize("name", [b"", *NAMES], ids=repr)
def test_a_name_is_read_as_it_was_written(name: bytes) -> None:
    step = write_name(name)
    assert step not in ("", ".", "..", "%2E", "%2E%2E")
    assert read_name(step.encode()) == name


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_queue_and_a_flow_of_any_name_are_found_and_changed(
    api: httpx.Client, hall: WebHall, name: bytes
) -> None:
    step = write_name(name)
    with hall.native() as peer:
        for _ in range(COUNT):
            peer.ask("submit", [0, [[name, b"", {"durable": True, "flow": name}, b"", 0, []]]])
    assert api.get(f"/queues/{step}").json()["ready"] == COUNT
    assert api.post(f"/queues/{step}/pause").json()["paused"]
    assert not api.post(f"/queues/{step}/resume").json()["paused"]
    fail_all(hall, name)
    assert api.post(f"/queues/{step}/retry", json={"expected": COUNT}).json()["retried"] == COUNT
    assert api.get(f"/flows/{step}").json()["ready"] == COUNT
    assert len(api.get(f"/flows/{step}/graph").json()["nodes"]) == COUNT
    assert api.post(f"/flows/{step}/cancel").json()["cancelled"] == COUNT


def test_the_summary_links_to_a_queue_that_url_parsers_would_resolve(api: httpx.Client, hall: WebHall) -> None:
    with hall.native() as peer:
        peer.submit(b"..", b"", durable=True)
    assert api.post("/queues/base64:Li4/pause").status_code == 200

    def is_linked() -> bool:
        return any(one["link"] == "/queues/base64:Li4" for one in api.get("/summary").json()["attention"])

    wait_until(is_linked, "the paused queue is in the summary")
    api.post("/queues/base64:Li4/resume")


@pytest.mark.parametrize("step", ["base64:!", "base64:L", "base64:%FF"])
def test_a_step_that_is_no_base64_is_refused(api: httpx.Client, step: str) -> None:
    answer = api.get(f"/queues/{step}")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


def test_a_schedule_named_as_the_folder_above_is_run_and_removed(api: httpx.Client) -> None:
    schedule = {"name": "..", "queue": "dots", "every_s": 3600}
    assert api.post("/schedules", json=schedule).status_code == 201
    assert api.post("/schedules/base64:Li4/run").status_code == 200
    assert api.delete("/schedules/base64:Li4").status_code == 200
    assert api.get("/schedules").json()["items"] == []


def test_many_jobs_of_names_that_are_not_text_are_cancelled_and_retried(
    api: httpx.Client, hall: WebHall
) -> None:
    queue, key = b"bulk\xff\xfe", b"key\x80"
    in_base64 = {"queue_base64": base64.b64encode(queue).decode(), "key_base64": base64.b64encode(key).decode()}
    flow = {"flow_base64": base64.b64encode(b"flow\xff").decode()}
    assert api.post("/jobs", json={"jobs": [{**in_base64, **flow}]}).status_code == 201
    with hall.native() as peer:
        peer.work(queue)
        peer.ask("fail", [peer.hear("assign")[0], 1, b"no", False])
    answer = api.post("/jobs/retry", json={"filter": in_base64, "expected": 1})
    assert answer.json()["changed"] == 1
    answer = api.post("/jobs/cancel", json={"filter": in_base64, "expected": 1})
    assert answer.json() == {"changed": 1, "failed": [], "failed_count": 0}
    assert api.get("/flows/flow%FF").json()["cancelled"] == 1


def test_a_filter_with_both_forms_of_a_name_is_refused(api: httpx.Client) -> None:
    wanted = {"queue": "a", "queue_base64": "YQ=="}
    answer = api.post("/jobs/cancel", json={"filter": wanted, "expected": 0})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
