"""Who uses the keyboard or a screen reader is never left without a focus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    import httpx
    from screen import Screen
    from web_process import WebHall


def wait_for_refresh(screen: Screen, part: str) -> None:
    """Two answers later the page has drawn the first of them."""
    for _ in range(2):
        with screen.page.expect_response(lambda answer: part in answer.url):
            pass


@pytest.mark.parametrize("path", ["/queues?text=focus.back", "/queues/focus.back"])
def test_the_focus_returns_to_the_button_whose_dialog_was_closed(
    hall: WebHall, api: httpx.Client, screen: Screen, path: str
) -> None:
    api.post("/jobs", json={"queue": "focus.back"})
    with hall.native() as worker:
        worker.work(b"focus.back")
        worker.ask("fail", [worker.hear("assign")[0], 1, b"no", False])
    screen.open(path)
    button = screen.page.get_by_role("button", name="Retry all dead letters of focus.back")
    button.press("Enter")
    expect(screen.page.get_by_role("dialog")).to_be_visible()
    wait_for_refresh(screen, "/queues")
    screen.press("Escape")
    expect(screen.page.get_by_role("dialog")).to_have_count(0)
    expect(button).to_be_focused()


def test_the_focus_goes_to_the_title_when_the_action_is_no_longer_there(
    api: httpx.Client, screen: Screen
) -> None:
    (job,) = api.post("/jobs", json={"queue": "focus.gone"}).json()["ids"]
    screen.open(f"/jobs/{job}")
    screen.button("Cancel").press("Enter")
    screen.button("Cancel the job").press("Enter")
    expect(screen.page.locator(".lead")).to_contain_text("Cancelled")
    expect(screen.page.get_by_role("heading", level=1)).to_be_focused()
