"""The address says what a page shows, and coming back finds it as it was left."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    import httpx
    from screen import Screen
    from web_process import WebHall


def test_what_was_typed_does_not_reach_the_next_page(api: httpx.Client, screen: Screen) -> None:
    api.post("/jobs", json={"queue": "typed.away"})
    screen.open("/queues")
    expect(screen.row("typed.away")).to_be_visible()
    screen.page.clock.install()
    screen.page.get_by_label("Search queues").fill("never")
    screen.page.get_by_role("navigation", name="Pages").get_by_role("link", name="Jobs").click()
    screen.page.clock.run_for(2000)
    expect(screen.page.get_by_role("heading", level=1)).to_have_text("Jobs")
    assert screen.page.url.endswith("/jobs")


def test_a_queue_whose_name_is_no_text_stays_chosen_when_another_filter_changes(
    hall: WebHall, screen: Screen
) -> None:
    with hall.native() as peer:
        peer.submit(b"raw\xff\xfe", b"x")
    screen.open("/jobs?queue=raw%FF%FE")
    expect(screen.page.get_by_text("1 job matches")).to_be_visible()
    screen.button("No worker").click()
    expect(screen.page).to_have_url(re.compile("situation=no_workers"))
    expect(screen.page.get_by_text("1 job matches")).to_be_visible()
    assert "queue=raw%FF%FE" in screen.page.url


def test_a_queue_and_a_flow_named_as_the_folder_above_have_pages(hall: WebHall, screen: Screen) -> None:
    with hall.native() as peer:
        job = peer.submit(b"..", b"", b"", durable=True, flow=b".")
    screen.open(f"/jobs/{job}")
    screen.page.get_by_role("link", name="..", exact=True).first.click()
    expect(screen.page.get_by_role("heading", level=1)).to_have_text("..")
    expect(screen.page.get_by_role("row").filter(has_text=str(job))).to_be_visible()
    screen.button("Pause ..").click()
    screen.says(".. is paused")
    screen.button("Resume ..").click()
    screen.says(".. goes on")
    screen.open(f"/jobs/{job}")
    screen.page.get_by_role("link", name=".", exact=True).click()
    expect(screen.page.get_by_text("0 of 1 job done")).to_be_visible()


def test_all_jobs_of_a_queue_whose_name_is_no_text_are_cancelled(hall: WebHall, screen: Screen) -> None:
    with hall.native() as peer:
        peer.submit(b"bulk\xff", b"", durable=True)
        peer.submit(b"bulk\xff", b"", durable=True)
    screen.open("/jobs?queue=bulk%FF")
    screen.button("Cancel all 2…").click()
    screen.button("Cancel 2 jobs").click()
    screen.says("2 jobs cancelled.")


def test_going_back_finds_a_list_where_it_was_scrolled_to(api: httpx.Client, screen: Screen) -> None:
    ids = api.post("/jobs", json={"jobs": [{"queue": "long.list"}] * 60}).json()["ids"]
    screen.open("/jobs?queue=long.list")
    far = screen.row(ids[45]).get_by_role("link").first
    far.scroll_into_view_if_needed()
    assert screen.page.evaluate("scrollY") > 0
    far.click()
    expect(screen.page.get_by_role("heading", level=1)).to_contain_text(ids[45])
    screen.page.go_back()
    expect(far).to_be_in_viewport()


def test_an_address_that_is_no_job_says_so(screen: Screen) -> None:
    screen.away_expected = True  # Chromium writes of the statuses 400 and 404, too
    for path in ("/jobs/abc", "/jobs/99999999999"):
        screen.open(path)
        expect(screen.page.get_by_text("The hall does not know this job")).to_be_visible()


def test_a_queue_that_the_hall_does_not_know_shows_what_the_history_has(screen: Screen) -> None:
    screen.away_expected = True  # Chromium writes of the status 404, too
    screen.open("/queues/never.used")
    expect(screen.page.get_by_text("The hall knows no such queue now")).to_be_visible()
    expect(screen.page.get_by_text("Nothing has ended yet")).to_be_visible()
