"""The web in trouble: it is killed, its hall ends, the disk fails, the hall wants a token."""

from __future__ import annotations

import json
import os
import signal
import threading
from datetime import UTC, datetime
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import httpx
import pytest
from broken_disk import FaintDisk
from hall_process import wait_until
from native_peer import NativePeer
from web_process import REQUESTED, TIMEOUT_S, LoneWeb, WebHall

from hiringhall.access.tokens import TokenList
from hiringhall.web.route import JSON
from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from pathlib import Path

KILLS = 2


class Submitter(threading.Thread):
    """Submits by HTTP until it is told to end; requests that fail with the web are made anew."""

    def __init__(self, hall: WebHall) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.statuses: set[int] = set()
        self.ending = threading.Event()
        self._hall = hall

    def run(self) -> None:
        with self._hall.api() as api:
            while not self.ending.is_set():
                try:
                    answer = api.post("/jobs", json={"queue": "q", "payload": "x"})
                except httpx.TransportError:
                    continue
                self.statuses.add(answer.status_code)
                self.ids += answer.json().get("ids", [])


def test_a_hall_under_load_does_not_notice_that_its_web_is_killed(tmp_path: Path) -> None:
    with WebHall(tmp_path) as hall, hall.sdk() as sdk:
        submitters = [Submitter(hall) for _ in range(3)]
        for submitter in submitters:
            submitter.start()
        try:
            for _ in range(KILLS):
                counts = [len(submitter.ids) for submitter in submitters]
                wait_until(
                    lambda counts=counts: all(
                        len(each.ids) > count for each, count in zip(submitters, counts, strict=True)
                    ),
                    "every submitter has submitted",
                    30.0,
                )
                os.kill(hall.web_pid(), signal.SIGKILL)
                slowest_s = 0.0
                for _ in range(20):
                    with Stopwatch() as watch:
                        sdk.function("native", raw=True).submit(b"beside it")
                    slowest_s = max(slowest_s, watch.elapsed_s)
                assert slowest_s < 5.0
        finally:
            for submitter in submitters:
                submitter.ending.set()
            for submitter in submitters:
                submitter.join()
        assert {status for submitter in submitters for status in submitter.statuses} == {201}
        acknowledged = {job_id for submitter in submitters for job_id in submitter.ids}
        with hall.api() as api:
            present = {job["id"] for job in api.get("/jobs", params={"queue": "q", "format": "json"}).json()}
        assert acknowledged <= present
        assert hall.running


def test_open_streams_and_waiting_requests_end_with_the_hall_and_leave_no_trace_in_the_log(
    tmp_path: Path,
) -> None:
    with WebHall(tmp_path) as hall, hall.api() as api, hall.api() as waiting:
        job_id = api.post("/jobs", json={"queue": "q"}).json()["ids"][0]
        answers: list[int] = []
        waiter = threading.Thread(
            target=lambda: answers.append(waiting.get(f"/jobs/{job_id}/result?wait=60").status_code)
        )
        waiter.start()
        with api.stream("GET", "/events") as summaries, hall.api() as other:
            assert next(summaries.iter_lines())
            with other.stream("GET", f"/jobs/{job_id}/events") as job:
                assert next(job.iter_lines())
                hall.signal(signal.SIGTERM)
                assert hall.wait() == 0
        waiter.join()
        assert answers == [202]
        assert "Traceback" not in hall.errors()
        assert "ERROR" not in hall.errors()


def test_a_request_that_a_killed_hall_does_not_answer_is_no_error_of_the_web(tmp_path: Path) -> None:
    with WebHall(tmp_path) as hall, hall.api() as api:
        api.post("/jobs", json={"queue": "q"})
        hall.signal(signal.SIGSTOP)
        submitter = HTTPConnection(hall.web.removeprefix("http://"), timeout=TIMEOUT_S)
        submitter.request("POST", "/api/v1/jobs", b'{"queue": "q"}', {**REQUESTED, "Content-Type": JSON})
        with hall.browser() as browser:
            assert browser.get("/healthz").status_code == 200  # the web has read what was sent before
        hall.kill()
        answer = submitter.getresponse()
        assert (answer.status, json.load(answer)["code"]) == (503, "closing")
        submitter.close()
        assert "Traceback" not in hall.errors()


@pytest.mark.sqlite  # the disk of its file fails
def test_a_store_in_trouble_is_not_ready_and_says_why(tmp_path: Path) -> None:
    disk = FaintDisk(tmp_path)
    trouble = WebHall(tmp_path, environment=disk.environment())
    with trouble as hall, hall.api() as api, hall.browser() as browser, NativePeer(hall.port) as peer:
        assert browser.get("/readyz").status_code == 200
        disk.fail()
        # The first one waits until it is known what the disk has of it.
        peer.send("submit", (0, [(b"q", b"", {}, b"", 0, [])]), 7)
        wait_until(lambda: "unknown commit" in hall.errors(), "the disk fails")
        refused = api.post("/jobs", json={"queue": "q"})
        assert (refused.status_code, refused.json()["code"]) == (503, "store_down")
        assert refused.headers["retry-after"]
        wait_until(lambda: browser.get("/readyz").status_code == 503, "the web is not ready")
        assert "the store is in trouble" in browser.get("/readyz").json()["reasons"][0]
        assert browser.get("/healthz").status_code == 200
        assert api.get("/hall").json()["store"]["ok"] is False
        disk.heal()
        wait_until(lambda: browser.get("/readyz").status_code == 200, "the web is ready again", 30.0)


def test_a_web_alone_says_that_the_hall_wants_a_token_of_it(tmp_path: Path) -> None:
    hall = WebHall(tmp_path, door={"tokens": "required"})
    hall.data.mkdir(mode=0o700)
    token = TokenList(hall.documents).add("web", "viewer", datetime.now(UTC), None)
    with hall:
        url = f"hall://{hall.address}"
        with LoneWeb(tmp_path, url) as web, web.api() as api:
            for _ in range(8):
                answer = httpx.get(f"{web.url}/readyz")
                assert (answer.status_code, "HALL_TOKEN" in answer.text) == (503, True)
                assert api.get("/queues").json()["code"] == "unauthorized"
            assert "HALL_TOKEN" in api.get("/summary").json()["detail"]
        with LoneWeb(tmp_path, url, token) as web, web.api() as api:
            assert httpx.get(f"{web.url}/readyz").status_code == 200
            assert api.get("/summary").status_code == 200
            assert api.post("/queues/q/pause").json()["code"] == "forbidden"
