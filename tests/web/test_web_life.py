"""The web process: started with the hall, started again when it ends, and never without a hall."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING

import httpx
from hall_process import wait_until
from web_process import WebHall

if TYPE_CHECKING:
    from pathlib import Path


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_dashboard_and_the_api_are_there_when_the_hall_has_opened(tmp_path: Path) -> None:
    with WebHall(tmp_path) as hall, hall.browser() as browser:
        assert "hiringhall" in browser.get("/queues/any").text
        assert browser.get("/healthz").text == "ok\n"
        answer = browser.get("/api/v1/hall").json()
        assert answer["name"] == "hall"
        assert answer["actor"] == {"name": "local", "role": "admin"}


def test_a_web_process_that_was_killed_is_started_again_on_the_same_port(tmp_path: Path) -> None:
    with WebHall(tmp_path) as hall, hall.api() as api:
        assert api.get("/hall").status_code == 200
        first = hall.web_pid()
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: not _lives(first), "the web process is gone")
        with hall.api() as again:
            assert again.get("/hall").status_code == 200
        assert hall.web_pid() != first
        hall.wait_for_errors("the web process ended (signal 9)")


def test_the_web_process_ends_when_the_hall_is_killed(tmp_path: Path) -> None:
    with WebHall(tmp_path) as hall:
        with hall.api() as api:
            api.get("/hall")
        web = hall.web_pid()
        hall.kill()
        wait_until(lambda: not _lives(web), "the web process has ended")


def test_the_web_process_ends_with_the_hall(tmp_path: Path) -> None:
    with WebHall(tmp_path) as hall:
        with hall.api() as api:
            api.get("/hall")
        web = hall.web_pid()
        hall.drain()
        assert hall.wait() == 0
        assert not _lives(web)


def test_a_port_that_is_taken_keeps_only_the_web_from_opening(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with WebHall(tmp_path, web=address) as hall:
            assert hall.web == ""
            with hall.native() as peer:
                assert peer.ask("queues", [0, 10]) == []
            message = f"{address} is in use by another program, so there is no web: choose another address"
            wait_until(lambda: message in hall.errors(), "the log says so")


def test_a_hall_in_memory_has_a_web_too(tmp_path: Path) -> None:
    with WebHall(tmp_path, hall={"storage": "memory"}) as hall, hall.api() as api:
        assert api.get("/hall").json()["data"] is False


def test_without_a_native_door_there_is_no_web(tmp_path: Path) -> None:
    with WebHall(tmp_path) as hall:
        hall._door["dialect"] = "gearman"
        hall.port = 0
        hall.start()
        assert hall.web == ""


def test_the_web_alone_says_that_no_hall_answers_and_mends_itself(tmp_path: Path) -> None:
    with WebHall(tmp_path) as hall:
        with hall.api() as api:
            assert api.get("/summary").status_code == 200
        hall.kill()
        hall._more = hall._more.replace("127.0.0.1:0", hall.web.removeprefix("http://"))
        hall.start()
        with httpx.Client(base_url=hall.web, timeout=30) as client:
            assert client.get("/api/v1/queues").status_code == 200
