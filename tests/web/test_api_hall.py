"""The hall by HTTP: summary and events, workers, schedules, the chart; with and without a data folder."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest
from hall_process import wait_until
from test_api_jobs import read_events
from web_process import LoneWeb, WebHall

if TYPE_CHECKING:
    from pathlib import Path

    import httpx


def test_the_summary_counts_and_says_what_needs_attention(api: httpx.Client, hall: WebHall) -> None:
    api.post("/jobs", json={"jobs": [{"queue": "sum.stuck"}, {"queue": "sum.bad"}]})
    with hall.native() as peer:
        peer.work(b"sum.bad")
        peer.ask("fail", [peer.hear("assign")[0], 1, b"", False])
    api.post("/queues/sum.paused/pause")

    def found() -> set[tuple[str, str]]:
        attention = api.get("/summary").json()["attention"]
        return {(line["kind"], line["link"]) for line in attention}

    wanted = {
        ("stuck_queue", "/queues/sum.stuck"),
        ("dead_letters", "/history?state=failed&queue=sum.bad"),
        ("paused", "/queues/sum.paused"),
    }
    wait_until(lambda: wanted <= found(), "what needs attention is named")
    summary = api.get("/summary").json()
    queues = {queue["name"]: queue for queue in summary["queues"]}
    assert (queues["sum.bad"]["failed"], queues["sum.stuck"]["ready"]) == (1, 1)
    assert summary["jobs"]["failed"] >= 1


def test_events_tell_of_the_hall_and_of_each_change(api: httpx.Client) -> None:
    with api.stream("GET", "/events") as stream:
        events = read_events(stream)
        assert next(events)[:2] == ("hall", {"connected": True})
        assert next(events)[0] == "summary"
        api.post("/jobs", json={"queue": "seen"})
        for kind, data, _ in events:
            if kind == "summary" and any(queue["name"] == "seen" for queue in data["queues"]):
                break


def test_rules_of_a_queue_are_set_shown_and_cleared(api: httpx.Client) -> None:
    rules = {
        "running_max": 3,
        "starts_per_second": 0.5,
        "fair": True,
        "tenant_weights": {"acme": 2},
        "age_max_s": 60,
    }
    told = api.put("/queues/ruled/rules", json=rules).json()
    assert told == {"rules": {**rules, "burst": 1}, "set": True}
    assert api.get("/queues/ruled/rules").json() == told
    assert api.get("/queues/ruled").json()["rules_set"] is True
    assert api.put("/queues/ruled/rules", json={"running_max": 0}).status_code == 400
    assert api.put("/queues/ruled/rules", json={"burst": 2}).status_code == 400
    assert api.put("/queues/ruled/rules", json={"running_max": 1}).json()["rules"] == {"running_max": 1}
    line = api.get("/audit", params={"limit": 1}).json()["items"][0]
    assert (line["what"], line["queue"], line["rules"]) == ("limit", "ruled", "fair=false, running_max=1")
    assert api.delete("/queues/ruled/rules").json() == {"rules": {}, "set": False}
    assert api.get("/queues/never.seen/rules").status_code == 404


def test_submits_are_debounced_and_throttled(api: httpx.Client) -> None:
    def submit(**said: Any) -> str:
        ids: list[str] = api.post("/jobs", json={"queue": "spaced", **said}).json()["ids"]
        return ids[0]

    first = submit(key="d", debounce_s=3600, debounce_max_s=7200, payload="1")
    assert submit(key="d", debounce_s=3600, payload="2", limit_key="a") == first
    job = api.get(f"/jobs/{first}").json()
    assert (job["payload"], job["situation"], job["terms"]["limit_key"]) == ("2", "delayed", "a")
    once = submit(key="t", throttle_s=3600)
    api.post(f"/jobs/{once}/cancel")
    assert submit(key="t", throttle_s=3600) == once
    assert api.post("/jobs", json={"queue": "spaced", "debounce_s": 5}).status_code == 400


def test_workers_are_listed_by_queue_dialect_and_text(api: httpx.Client, hall: WebHall) -> None:
    with hall.native() as peer:
        peer.work(b"staffed", name=b"worker-7")
        [worker] = api.get("/workers", params={"queue": "staffed"}).json()["items"]
        assert (worker["name"], worker["dialect"], worker["queues"]) == ("worker-7", "native", ["staffed"])
        assert api.get(f"/workers/{worker['number']}").json()["name"] == "worker-7"
        assert len(api.get("/workers", params={"dialect": "native", "text": "ER-7"}).json()["items"]) == 1
        assert api.get("/workers", params={"dialect": "gearman"}).json()["items"] == []
        [line] = api.get("/workers", params={"queue": "staffed", "format": "json"}).json()
        assert line["number"] == worker["number"]
    assert api.get("/workers/123456").status_code == 404
    assert api.get("/workers/x").status_code == 400


def test_a_schedule_is_added_listed_and_removed(api: httpx.Client) -> None:
    body = {
        "name": "nightly",
        "queue": "report",
        "cron": "0 3 * * *",
        "timezone": "Europe/Vienna",
        "retries": 2,
        "resources": {"mem": "8G", "gpus": 0.5},
    }
    added = api.post("/schedules", json=body)
    assert added.status_code == 201
    assert (added.json()["source"], added.json()["terms"]["retries"]) == ("added", 2)
    assert added.json()["terms"]["resources"] == "gpus=0.5 mem=8G"
    [listed] = api.get("/schedules").json()["items"]
    assert (listed["name"], listed["cron"], listed["paused"]) == ("nightly", "0 3 * * *", False)
    assert api.post("/schedules", json=body).status_code in (400, 409)
    assert api.post("/schedules", json={"name": "x", "queue": "q", "cron": "never"}).status_code == 400
    assert api.post("/schedules", json={**body, "resources": {"mem": "much"}}).status_code == 400
    assert api.delete("/schedules/nightly").json() == {"ok": True}
    assert api.get("/schedules").json()["items"] == []
    assert api.delete("/schedules/nightly").status_code in (400, 404, 409)


def test_doors_are_listed(api: httpx.Client, hall: WebHall) -> None:
    doors = api.get("/doors").json()["items"]
    assert {door["dialect"] for door in doors} == {"native"}
    assert f"127.0.0.1:{hall.port}" in [door["address"] for door in doors]


@pytest.mark.parametrize("storage", ["sqlite", "memory"])
def test_the_chart_counts_every_end_once(tmp_path: Path, storage: str) -> None:
    with WebHall(tmp_path, hall={"storage": storage}) as hall, hall.api() as api:

        def totals(span: str, **more: str) -> tuple[int, int]:
            charts: list[Any] = []

            def complete() -> bool:  # one request counts for a bounded time
                charts[:] = [api.get("/history/chart", params={"span": span, **more}).json()]
                return bool(charts[0]["complete"])

            wait_until(complete, "all is counted")
            items = charts[0]["items"]
            return sum(item["done"] for item in items), sum(item["cancelled"] for item in items)

        assert totals("1h") == (0, 0)
        ids = api.post("/jobs", json={"jobs": [{"queue": "chart"} for _ in range(7)]}).json()["ids"]
        with hall.native() as peer:
            peer.work(b"chart", slots=1)
            for _ in range(5):
                peer.ask("finish", [peer.hear("assign")[0], b""])
            peer.ask("slots", [0])
        for number in ids[5:]:
            api.post(f"/jobs/{number}/cancel")
        wait_until(lambda: totals("1h") == (5, 2), "all ends are counted")
        for span in ("1h", "6h", "1d", "7d", "30d"):
            assert totals(span) == (5, 2)
            assert totals(span, queue="chart") == (5, 2)
            assert totals(span, queue="other") == (0, 0)


def test_the_history_is_there_after_the_hall_was_killed_and_the_web_mends_itself(tmp_path: Path) -> None:
    with WebHall(tmp_path) as hall:
        with hall.api() as api:
            [number] = api.post("/jobs", json={"queue": "kept"}).json()["ids"]
            api.post(f"/jobs/{number}/cancel")
            wait_until(lambda: _count(api, "kept") == 1, "the end is in the history")
        hall.kill()
        hall.start()
        with hall.api() as api:
            assert _count(api, "kept") == 1
            assert api.get(f"/jobs/{number}").json()["state"] == "cancelled"


def test_a_web_of_its_own_answers_502_while_the_hall_is_away_and_then_goes_on(tmp_path: Path) -> None:
    with WebHall(tmp_path) as hall, LoneWeb(tmp_path, f"hall://{hall.address}") as web, web.api() as api:
        assert api.get("/queues").status_code == 200
        with api.stream("GET", "/events") as stream:
            events = read_events(stream)
            assert next(events)[1] == {"connected": True}
            hall.kill()
            assert _next_hall(events) == {"connected": False}
            away = api.get("/queues")
            assert (away.status_code, away.json()["code"]) == (502, "hall_unreachable")
            assert away.headers["retry-after"] == "2"
            hall.start()
            assert _next_hall(events) == {"connected": True}
        assert api.get("/queues").status_code == 200
        web.process.send_signal(signal.SIGTERM)
        assert web.process.wait(15) == 0


def _next_hall(events: Any) -> dict[str, Any]:
    for kind, data, _ in events:
        if kind == "hall":
            found: dict[str, Any] = data
            return found
    raise AssertionError("the stream has ended")


def _count(api: httpx.Client, queue: str) -> int:
    count: int = api.get("/history/count", params={"queue": queue}).json()["count"]
    return count


def test_the_audit_list_names_what_was_changed(api: httpx.Client) -> None:
    schedule = {"name": "nightly", "queue": "q", "cron": "0 3 * * *", "timezone": "Europe/Berlin"}
    added = api.post("/schedules", json=schedule).json()
    assert added["next"].endswith("Z")
    api.delete("/schedules/nightly")
    line = api.get("/audit", params={"limit": 1}).json()["items"][0]
    assert (line["what"], line["name"], line["from"]) == ("unschedule", "nightly", "127.0.0.1")


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/v1", "/api/v2/jobs", "/api/v1/"])
def test_a_program_gets_an_error_and_not_the_dashboard(hall: WebHall, path: str) -> None:
    with hall.browser() as browser:
        answer = browser.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_the_head_of_a_stream_leaves_the_connection_free(api: httpx.Client) -> None:
    assert api.head("/events").headers["content-type"].startswith("text/event-stream")
    assert api.get("/hall").status_code == 200
