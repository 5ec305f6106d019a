"""Every action of the dashboard, by keyboard alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from playwright.sync_api import expect

from hiringhall.web.routes import API

if TYPE_CHECKING:
    import httpx
    from screen import Screen
    from web_process import WebHall


def submit(api: httpx.Client, queue: str, count: int = 1, **terms: Any) -> list[str]:
    answer = api.post("/jobs", json={"jobs": [{"queue": queue, **terms}] * count})
    ids: list[str] = answer.json()["ids"]
    return ids


def fail_all(hall: WebHall, queue: str, count: int) -> None:
    """Make dead letters of all jobs of a queue."""
    with hall.native() as worker:
        worker.work(queue.encode(), slots=count)
        for _ in range(count):
            worker.ask("fail", [worker.hear("assign")[0], 1, b"no", False])


def test_a_job_is_submitted(screen: Screen, api: httpx.Client) -> None:
    screen.open("/jobs")
    screen.activate("New job")
    screen.page.keyboard.type("typed")
    screen.press("Tab")
    screen.page.keyboard.type('["Anna"]')
    screen.activate("Submit")
    expect(screen.page).to_have_url(re.compile(r"/jobs/\d+$"))
    assert api.get("/jobs", params={"queue": "typed"}).json()["items"][0]["state"] == "queued"


def test_a_job_is_cancelled(screen: Screen, api: httpx.Client) -> None:
    (job,) = submit(api, "key.cancel")
    screen.open(f"/jobs/{job}")
    screen.activate("Cancel")
    screen.activate("Cancel the job")
    expect(screen.page.locator(".lead")).to_contain_text("Cancelled")
    assert api.get(f"/jobs/{job}").json()["state"] == "cancelled"


def test_a_dead_letter_is_retried(screen: Screen, hall: WebHall, api: httpx.Client) -> None:
    (job,) = submit(api, "key.retry")
    fail_all(hall, "key.retry", 1)
    screen.open(f"/jobs/{job}")
    screen.activate("Retry")
    screen.says("is ready again")
    assert api.get(f"/jobs/{job}").json()["state"] == "queued"


def test_all_that_match_are_retried_and_their_number_is_confirmed(
    screen: Screen, hall: WebHall, api: httpx.Client
) -> None:
    submit(api, "key.bulk", 60)
    fail_all(hall, "key.bulk", 60)
    screen.open("/history?state=failed&queue=key.bulk")
    expect(screen.page.get_by_text("60 jobs match")).to_be_visible()
    screen.activate("Retry all 60…")
    expect(screen.page.get_by_role("dialog")).to_contain_text("also those that this page does not show")
    screen.activate("Retry 60 jobs")
    screen.says("60 jobs retried.")
    assert api.get("/queues/key.bulk").json()["ready"] == 60


def test_a_bulk_action_is_refused_if_the_number_has_changed_meanwhile(
    screen: Screen, api: httpx.Client
) -> None:
    submit(api, "key.differs", 3)
    screen.open("/jobs?queue=key.differs")
    screen.activate("Cancel all 3…")
    expect(screen.page.get_by_role("dialog")).to_be_visible()
    submit(api, "key.differs")
    screen.away_expected = True  # Chromium writes of the status 409, too
    screen.activate("Cancel 3 jobs")
    expect(screen.page.get_by_role("alert").filter(has_text="4 jobs match now")).to_be_visible()
    screen.press("Escape")
    assert api.get("/queues/key.differs").json()["ready"] == 4


def test_selected_jobs_are_cancelled(screen: Screen, api: httpx.Client) -> None:
    submit(api, "key.selected", 3)
    screen.open("/jobs?queue=key.selected")
    expect(screen.page.get_by_text("3 jobs match")).to_be_visible()
    screen.press("j", "x", "j", "x")
    screen.activate("Cancel 2 jobs")
    expect(screen.page.get_by_role("dialog")).to_contain_text("The 2 selected jobs")
    screen.page.get_by_role("dialog").get_by_role("button", name="Cancel 2 jobs").press("Enter")
    screen.says("2 jobs cancelled.")
    assert api.get("/queues/key.selected").json()["ready"] == 1


def test_a_queue_is_paused_resumed_and_its_dead_letters_retried(
    screen: Screen, hall: WebHall, api: httpx.Client
) -> None:
    submit(api, "key.queue", 2)
    fail_all(hall, "key.queue", 2)
    screen.open("/queues?text=key.queue")
    expect(screen.row("key.queue")).to_be_visible()
    screen.activate("Pause key.queue")
    expect(screen.row("key.queue")).to_contain_text("Paused")
    assert api.get("/queues/key.queue").json()["paused"]
    screen.activate("Resume key.queue")
    expect(screen.row("key.queue")).not_to_contain_text("Paused")
    screen.activate("Retry all dead letters of key.queue")
    screen.activate("Retry 2 jobs")
    screen.says("2 jobs retried.")
    assert api.get("/queues/key.queue").json()["ready"] == 2


def test_dead_letters_are_counted_when_the_button_is_pressed(
    screen: Screen, hall: WebHall, api: httpx.Client
) -> None:
    submit(api, "key.counted")
    fail_all(hall, "key.counted", 1)
    screen.open("/queues?text=key.counted")
    letters = screen.row("key.counted").get_by_role("link", name="1", exact=True)
    expect(letters).to_be_visible()
    submit(api, "key.counted", 2)
    fail_all(hall, "key.counted", 2)
    expect(letters).to_have_count(0)
    screen.activate("Retry all dead letters of key.counted")
    expect(screen.page.get_by_role("dialog")).to_contain_text("Retry 3 dead letters?")
    screen.activate("Retry 3 jobs")
    screen.says("3 jobs retried.")


def test_selected_dead_letters_are_retried(screen: Screen, hall: WebHall, api: httpx.Client) -> None:
    submit(api, "key.chosen", 3)
    fail_all(hall, "key.chosen", 3)
    screen.open("/history?state=failed&queue=key.chosen")
    expect(screen.page.get_by_text("3 jobs match")).to_be_visible()
    screen.press("j", "x", "j", "x")
    screen.activate("Retry 2 jobs")
    screen.page.get_by_role("dialog").get_by_role("button", name="Retry 2 jobs").press("Enter")
    screen.says("2 jobs retried.")
    assert api.get("/queues/key.chosen").json()["ready"] == 2


def test_a_worker_is_drained_and_gets_jobs_again(screen: Screen, hall: WebHall, api: httpx.Client) -> None:
    with hall.native() as worker:
        worker.work(b"key.drain", name=b"drained")
        screen.open("/workers?queue=key.drain")
        expect(screen.row("drained")).to_be_visible()
        screen.activate("Drain drained")
        screen.activate("Drain this worker")
        expect(screen.row("drained")).to_contain_text("Draining")
        assert api.get("/workers", params={"queue": "key.drain"}).json()["items"][0]["draining"]
        submit(api, "key.drain")
        screen.activate("Undrain drained")
        screen.says("drained gets jobs again.")
        expect(screen.row("drained")).not_to_contain_text("Draining")
        assert worker.hear("assign")


def test_a_schedule_is_added_run_now_paused_resumed_and_removed(screen: Screen, api: httpx.Client) -> None:
    screen.open("/schedules")
    screen.activate("New schedule")
    screen.page.keyboard.type("nightly")
    screen.press("Tab")
    screen.page.keyboard.type("key.schedule")
    screen.activate("Add the schedule")
    expect(screen.row("nightly")).to_be_visible()
    screen.activate("Run now nightly")
    screen.says("a job was submitted")
    assert api.get("/jobs/count", params={"queue": "key.schedule"}).json()["count"] == 1
    screen.activate("Pause nightly")
    expect(screen.row("nightly")).to_contain_text("Paused")
    assert api.get("/schedules").json()["items"][0]["next"] is None
    screen.activate("Resume nightly")
    screen.says("nightly goes on.")
    expect(screen.row("nightly")).not_to_contain_text("Paused")
    assert api.get("/schedules").json()["items"][0]["next"] is not None
    screen.activate("Remove nightly")
    screen.activate("Remove the schedule")
    expect(screen.page.get_by_text("No schedule yet")).to_be_visible()
    assert api.get("/schedules").json()["items"] == []


def test_pages_are_reached_by_two_keys_and_help_says_which(screen: Screen) -> None:
    screen.open("/")
    for key, title in (("q", "Queues"), ("w", "Workers"), ("h", "History"), ("j", "Jobs"), ("o", "Overview")):
        screen.press("g", key)
        expect(screen.page.get_by_role("heading", level=1)).to_have_text(title)
    screen.press("?")
    expect(screen.page.get_by_role("dialog")).to_contain_text("Keyboard shortcuts")
    screen.press("Escape")
    screen.press("/")
    expect(screen.page.get_by_label("Search jobs by id, key or text")).to_be_focused()


def test_a_flow_is_retried_and_cancelled(screen: Screen, hall: WebHall, api: httpx.Client) -> None:
    submit(api, "key.flow", 3, flow="key.flow")
    fail_all(hall, "key.flow", 3)
    screen.open("/flows/key.flow")
    expect(screen.button("Retry 3 failed")).to_be_visible()
    screen.activate("Retry 3 failed")
    screen.activate("Retry 3 jobs")
    screen.says("are retried")
    expect(screen.button("Cancel")).to_be_visible()
    screen.activate("Cancel")
    screen.activate("Cancel 3 jobs")
    screen.says("is cancelled")
    assert api.get("/flows/key.flow").json()["cancelled"] == 3


BY_KEYBOARD: Final = {
    "POST /jobs": test_a_job_is_submitted,
    "POST /jobs/{id}/cancel": test_a_job_is_cancelled,
    "POST /jobs/{id}/retry": test_a_dead_letter_is_retried,
    "POST /jobs/cancel": test_selected_jobs_are_cancelled,
    "POST /jobs/retry": test_all_that_match_are_retried_and_their_number_is_confirmed,
    "POST /queues/{name}/pause": test_a_queue_is_paused_resumed_and_its_dead_letters_retried,
    "POST /queues/{name}/resume": test_a_queue_is_paused_resumed_and_its_dead_letters_retried,
    "POST /queues/{name}/retry": test_a_queue_is_paused_resumed_and_its_dead_letters_retried,
    "POST /workers/{number}/drain": test_a_worker_is_drained_and_gets_jobs_again,
    "POST /workers/{number}/undrain": test_a_worker_is_drained_and_gets_jobs_again,
    "POST /flows/{name}/cancel": test_a_flow_is_retried_and_cancelled,
    "POST /flows/{name}/retry": test_a_flow_is_retried_and_cancelled,
    "POST /schedules": test_a_schedule_is_added_run_now_paused_resumed_and_removed,
    "DELETE /schedules/{name}": test_a_schedule_is_added_run_now_paused_resumed_and_removed,
    "POST /schedules/{name}/pause": test_a_schedule_is_added_run_now_paused_resumed_and_removed,
    "POST /schedules/{name}/resume": test_a_schedule_is_added_run_now_paused_resumed_and_removed,
    "POST /schedules/{name}/run": test_a_schedule_is_added_run_now_paused_resumed_and_removed,
}
"""The test of each change that the pages can make."""
NOT_ON_PAGES: Final = {"PUT /queues/{name}/rules", "DELETE /queues/{name}/rules"}
"""Changes of the API that no page offers: the page of a queue shows its rules, and `hall limit` sets them."""


def test_every_change_of_the_api_has_a_test_by_keyboard() -> None:
    changes = {f"{route.method} {route.path}" for route in API if route.method != "GET"}
    assert changes - NOT_ON_PAGES == set(BY_KEYBOARD)
    assert changes >= NOT_ON_PAGES
