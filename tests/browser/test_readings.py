"""What a page says of a job, a chart or the whole hall is what is so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from playwright.sync_api import expect

if TYPE_CHECKING:
    import httpx
    from playwright.sync_api import Route
    from screen import Screen
    from web_process import WebHall

ATTEMPTS: Final = """async (job) => {
  const { attempts } = await import("/assets/js/pages/attempts.js");
  return attempts(job).textContent;
}"""
LABELS: Final = """async () => {
  const { Chart } = await import("/assets/js/charts.js");
  const { duration } = await import("/assets/js/format.js");
  const chart = new Chart({ title: "Wait", format: duration });
  document.querySelector("main").append(chart.node);
  chart.width = 500;
  const series = [{ name: "Wait", tone: "hold", values: [1, 199] }];
  chart.update({ times: [0, 1000], from: 0, to: 1000, series });
  return Math.min(...[...chart.svg.querySelectorAll("text")].map((label) => label.getBBox().x));
}"""


def test_an_attempt_that_the_hall_did_not_see_end_does_not_run_for_ever(screen: Screen) -> None:
    start, again = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
    lost = {"started": start, "ended": None, "worker": "anna", "dialect": "native", "code": 0}
    job: dict[str, Any] = {"created": start, "started": start, "worker": "anna", "tries": [lost]}
    screen.open("/queues")
    assert "runs for" not in screen.page.evaluate(ATTEMPTS, {**job, "state": "queued", "situation": "ready"})
    done = {**job, "state": "done", "started": again, "ended": "2026-01-01T00:02:00Z", "worker": "bob"}
    read = screen.page.evaluate(ATTEMPTS, done)
    assert "Attempt 1 was lost with the hall" in read
    assert "Attempt 2 succeeded" in read
    assert "runs for" not in read


def test_the_labels_of_a_chart_are_not_cut(screen: Screen) -> None:
    assert screen.open("/queues").page.evaluate(LABELS) >= 0


def test_the_depth_says_when_it_is_that_of_the_busiest_queues_only(screen: Screen, api: httpx.Client) -> None:
    summary = api.get("/summary").json()
    quiet = {"ready": 1, "running": 0, "waiting": 0, "failed": 0, "paused": False}
    totals = {"done_total": 0, "failed_total": 0}
    summary["queues"] = [{"name": f"q{number}", **quiet, **totals} for number in range(1000)]

    def crowded(route: Route) -> None:
        body = f"event: summary\ndata: {json.dumps(summary)}\n\n"
        route.fulfill(content_type="text/event-stream", body=body)

    screen.page.route("**/api/v1/events", crowded)
    screen.open("/")
    expect(screen.page.get_by_text("in the 1,000 busiest queues")).to_be_visible()


def test_a_list_shows_an_exception_by_its_type_and_text(hall: WebHall, screen: Screen) -> None:
    failure = {"type": "ValueError", "text": 'no "address" ' + "x" * 300, "traceback": "Traceback ..."}
    with hall.native() as worker:
        worker.work(b"raises")
        job = worker.submit(b"raises", b"", durable=True)
        data = json.dumps(failure, separators=(",", ":")).encode()
        worker.ask("fail", [worker.hear("assign")[0], 1, data, False])
    screen.open("/history?queue=raises")
    expect(screen.row(str(job))).to_contain_text('ValueError: no "address" xxx')


def test_a_node_whose_key_was_made_by_the_sdk_is_labelled_by_its_queue(
    api: httpx.Client, screen: Screen
) -> None:
    api.post("/jobs", json={"queue": "photos.resize", "flow": "made", "key": "936fa92868a7-8"})
    screen.open("/flows/made")
    expect(screen.button("resize")).to_be_visible()
    screen.page.get_by_label("Find a job in the graph").fill("936fa92868a7-8")
    expect(screen.page.locator(".graph-info")).to_contain_text("resize")
