"""Pages show what happens in the hall, without a reload."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    import httpx
    from playwright.sync_api import Route
    from screen import Screen
    from web_process import WebHall

MARK = "window.stillHere = true"


def stays(screen: Screen) -> None:
    """The page was not loaded again since it was marked."""
    assert screen.page.evaluate("window.stillHere") is True


def test_a_job_of_debians_gearman_appears_progresses_and_ends_without_reload(
    hall: WebHall, screen: Screen
) -> None:
    screen.open("/jobs?queue=film")
    screen.page.evaluate(MARK)
    expect(screen.page.get_by_text("No job that waits or runs matches")).to_be_visible()
    command = ["gearman", "-h", "127.0.0.1", "-p", str(hall.ports[1]), "-b", "-f", "film", "holiday.mov"]
    subprocess.run(command, check=True, timeout=30)
    row = screen.row("film")
    expect(row).to_contain_text("No worker")
    with hall.native() as worker:
        worker.work(b"film", name=b"projector")
        lease = worker.hear("assign")[0]
        expect(row).to_contain_text("Running")
        row.get_by_role("link").first.click()
        expect(screen.page.get_by_text("projector runs it.")).to_be_visible()
        worker.ask("progress", [lease, 3, 4, 0])
        worker.ask("chunk", [lease, b"reel 1 is done", False])
        expect(screen.page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "75")
        expect(screen.page.get_by_role("log")).to_contain_text("reel 1 is done")
        worker.ask("finish", [lease, b"holiday.webm"])
    expect(screen.page.get_by_role("region", name="Result")).to_contain_text("holiday.webm")
    expect(screen.page.locator(".lead")).to_contain_text("Done")
    stays(screen)


def test_the_overview_counts_live_and_says_what_needs_attention(
    hall: WebHall, api: httpx.Client, screen: Screen
) -> None:
    screen.open("/")
    screen.page.evaluate(MARK)
    api.post("/jobs", json={"jobs": [{"queue": "attended"}] * 3}).raise_for_status()
    expect(screen.row("attended")).to_contain_text("3")
    with hall.native() as worker:
        worker.work(b"attended", slots=3)
        for _ in range(3):
            worker.ask("fail", [worker.hear("assign")[0], 7, b"no", False])
    attention = screen.page.get_by_role("region", name="Needs attention")
    expect(attention.get_by_role("link", name=re.compile("attended"))).to_be_visible()
    expect(screen.page.locator(".chart").first).to_have_attribute("aria-label", re.compile("^Throughput"))
    stays(screen)


def test_every_page_counts_the_jobs_of_all_queues_live(api: httpx.Client, screen: Screen) -> None:
    screen.open("/")
    api.post("/jobs", json={"jobs": [{"queue": "totalled"}] * 3}).raise_for_status()
    expect(screen.row("totalled")).to_contain_text("3")
    jobs = api.get("/summary").json()["jobs"]
    screen.open("/settings")
    totals = screen.page.get_by_role("list", name="Jobs in all queues").get_by_role("link")
    labels = {"Ready": "ready", "Running": "running", "Waiting": "waiting", "Dead letters": "failed"}
    expect(totals).to_have_text([f"{label}{jobs[name]:,}" for label, name in labels.items()])
    screen.page.evaluate(MARK)
    api.post("/jobs", json={"queue": "totalled"}).raise_for_status()
    expect(totals.first).to_have_text(f"Ready{jobs['ready'] + 1:,}")
    totals.first.click()
    expect(screen.row("totalled")).to_contain_text("4")
    stays(screen)


def test_a_long_list_of_what_needs_attention_is_folded(api: httpx.Client, screen: Screen) -> None:
    jobs = [{"queue": f"crowd.{number}", "durable": False} for number in range(12)]
    api.post("/jobs", json={"jobs": jobs}).raise_for_status()
    for job in jobs:
        api.post(f"/queues/{job['queue']}/pause").raise_for_status()
    screen.open("/")
    lines = screen.page.get_by_role("region", name="Needs attention").get_by_role("link")
    more = screen.page.get_by_role("button", name=re.compile("^Show [0-9]+ more$"))
    expect(more).to_be_visible()
    expect(lines).to_have_count(5)
    more.press("Enter")
    expect(more).to_have_count(0)
    assert lines.count() > 6
    expect(lines.nth(5)).to_be_focused()


def test_workers_of_a_dialect_are_counted_across_pages(hall: WebHall, screen: Screen) -> None:
    def small_page(route: Route) -> None:
        route.continue_(url=route.request.url.replace("limit=1000", "limit=1"))

    screen.page.route("**/api/v1/workers?*", small_page)
    with hall.native() as one, hall.native() as two, hall.native() as three:
        for worker in (one, two, three):
            worker.work(b"counted")
        screen.open("/")
        expect(screen.page.get_by_text("native 3 workers")).to_be_visible()


def test_a_list_keeps_focus_and_selection_while_it_is_refreshed(api: httpx.Client, screen: Screen) -> None:
    first, second = api.post("/jobs", json={"jobs": [{"queue": "kept"}] * 2}).json()["ids"]
    screen.open("/jobs?queue=kept")
    screen.row(first).get_by_role("checkbox").check()
    screen.row(second).get_by_role("link").first.focus()
    (third,) = api.post("/jobs", json={"queue": "kept"}).json()["ids"]
    expect(screen.row(third)).to_be_visible()
    expect(screen.row(first).get_by_role("checkbox")).to_be_checked()
    expect(screen.row(second).get_by_role("link").first).to_be_focused()


def test_filters_are_in_the_address_and_survive_reload_and_back(api: httpx.Client, screen: Screen) -> None:
    api.post("/jobs", json={"jobs": [{"queue": "sought", "key": "one"}, {"queue": "sought", "key": "two"}]})
    screen.open("/jobs?queue=sought")
    expect(screen.page.get_by_text("2 jobs match")).to_be_visible()
    screen.page.get_by_label("Exact key").fill("two")
    expect(screen.page.get_by_text("1 job matches")).to_be_visible()
    assert "key=two" in screen.page.url
    screen.page.reload()
    expect(screen.page.get_by_text("1 job matches")).to_be_visible()
    expect(screen.page.get_by_label("Exact key")).to_have_value("two")
    screen.button("Running").click()
    expect(screen.page.get_by_text("0 jobs match")).to_be_visible()
    screen.page.go_back()
    expect(screen.page.get_by_text("1 job matches")).to_be_visible()


def test_a_list_is_downloaded_as_csv_and_as_json(api: httpx.Client, screen: Screen) -> None:
    api.post("/jobs", json={"queue": "taken.home", "key": "only"})
    screen.open("/jobs?queue=taken.home")
    expect(screen.page.get_by_text("1 job matches")).to_be_visible()
    for kind in ("CSV", "JSON"):
        with screen.page.expect_download() as started:
            screen.page.get_by_role("link", name=kind, exact=True).click()
        assert "taken.home" in started.value.path().read_text()
