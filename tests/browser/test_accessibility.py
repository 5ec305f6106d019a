"""axe-core finds nothing serious on any page, in both themes; on a phone nothing is cut."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest
from busy_hall import busy_hall
from playwright.sync_api import expect
from screen import Screen, open_context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser
    from web_process import WebHall

AXE: Final = Path(__file__).parents[2] / ".clients" / "node_modules" / "axe-core" / "axe.min.js"
PAGES: Final = (
    "/",
    "/?span=1h",
    "/queues",
    "/queues/photos.resize",
    "/jobs",
    "/workers",
    "/flows",
    "/flows/genome-2026-11",
    "/auctions",
    "/schedules",
    "/history",
    "/history?state=failed",
    "/settings",
    "/settings?part=settings",
    "/settings?part=audit",
    "/nowhere",
    "/login",
)
DIALOGS: Final = (
    ("/jobs", "New job"),
    ("/jobs?queue=search.index", "Cancel all 9…"),
    ("/history?state=failed&queue=billing.invoice", "Retry all 6…"),
    ("/queues?text=billing.invoice", "Retry all dead letters of billing.invoice"),
    ("/schedules", "New schedule"),
    ("/schedules", "Remove digest"),
    ("/flows/genome-2026-11", "Cancel"),
    ("/", "Keyboard shortcuts"),
)
"""Pages, and the names of buttons that open a dialog there. Those of one worker and of one job are found."""
SERIOUS: Final = """async () => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  return violations
    .filter((one) => one.impact === "serious" || one.impact === "critical")
    .map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html).join(" ")}`);
}"""
CUT: Final = """() => {
  const wide = document.documentElement.scrollWidth > innerWidth + 1;
  const cut = [...document.querySelectorAll("main button, main h1, main .badge, .top a")].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.width && box.right > innerWidth + 1 && !one.closest(".table-scroll");
  });
  return [wide, cut.map((one) => one.textContent)];
}"""

HIDDEN: Final = """() => [...document.querySelectorAll(".row-link")]
  .filter((one) => one.scrollHeight > one.clientHeight + 1 || one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.textContent)"""
"""Names that are not shown whole."""


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHall]:
    with busy_hall(tmp_path_factory.mktemp("hall")) as hall:
        yield hall


def paths(hall: WebHall) -> list[str]:
    """All pages, with those of a job in each of two states, of a worker, and of a job's graph."""
    with hall.api() as api:
        failed = api.get("/history", params={"state": "failed", "limit": 1}).json()["items"]
        live = api.get("/jobs", params={"situation": "backoff", "limit": 1}).json()["items"]
        held = api.get("/jobs", params={"situation": "held", "limit": 1}).json()["items"]
        workers = api.get("/workers", params={"limit": 1}).json()["items"]
    graphs = [f"/graph?job={job['id']}" for job in held]
    jobs = [f"/jobs/{job['id']}" for job in (*failed, *live)]
    return [*PAGES, *graphs, *jobs, *(f"/workers/{worker['number']}" for worker in workers)]


def serious(screen: Screen) -> Any:
    """What axe-core finds on the page; it is loaded once for all pages that are followed."""
    assert AXE.exists(), "no axe-core: scripts/install-test-clients installs it"
    if not screen.page.evaluate("'axe' in window"):
        screen.page.evaluate(AXE.read_text())
    return screen.page.evaluate(SERIOUS)


def settled(screen: Screen) -> None:
    """No part of the page waits for its first answer."""
    expect(screen.page.locator("[aria-busy=true]")).to_have_count(0)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Browser, hall: WebHall, theme: Literal["light", "dark"]) -> None:
    found: dict[str, Any] = {}
    with open_context(browser, theme=theme) as context, Screen(context, hall.web) as screen:
        for path in paths(hall):
            screen.follow(path)
            settled(screen)
            if wrong := serious(screen):
                found[path] = wrong
        assert (found, screen.faults) == ({}, [])


def dialogs(hall: WebHall) -> list[tuple[str, str]]:
    """A page and a button for each kind of dialog."""
    with hall.api() as api:
        worker = api.get("/workers", params={"dialect": "gearman"}).json()["items"][0]
        job = api.get("/jobs", params={"situation": "backoff", "limit": 1}).json()["items"][0]
    return [
        *DIALOGS,
        (f"/workers/{worker['number']}", f"Drain {worker['name']}"),
        (f"/jobs/{job['id']}", "Cancel"),
    ]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_any_dialog(
    browser: Browser, hall: WebHall, theme: Literal["light", "dark"]
) -> None:
    found: dict[str, Any] = {}
    with open_context(browser, theme=theme) as context, Screen(context, hall.web) as screen:
        for path, button in dialogs(hall):
            screen.follow(path)
            settled(screen)
            screen.button(button).click()
            expect(screen.page.get_by_role("dialog")).to_be_visible()
            if wrong := serious(screen):
                found[f"{path}: {button}"] = wrong
            screen.press("Escape")
            expect(screen.page.get_by_role("dialog")).to_have_count(0)
        assert (found, screen.faults) == ({}, [])


@pytest.mark.timeout(300)
def test_on_a_phone_nothing_is_cut(browser: Browser, hall: WebHall) -> None:
    with open_context(browser, width=390, height=844) as context, Screen(context, hall.web) as screen:
        for path in paths(hall):
            screen.follow(path)
            settled(screen)
            assert (path, screen.page.evaluate(CUT)) == (path, [False, []])
        screen.open("/")
        screen.button("Pages").click()
        screen.page.get_by_role("navigation", name="Pages").get_by_role("link", name="Workers").click()
        expect(screen.page.get_by_role("heading", level=1)).to_have_text("Workers")
        screen.page.set_viewport_size({"width": 320, "height": 600})
        assert screen.page.evaluate(CUT) == [False, []]
        assert screen.faults == []


def test_a_worker_whose_name_is_a_uuid_is_shown_whole(screen: Screen) -> None:
    screen.open("/workers")
    settled(screen)
    names = screen.page.locator(".row-link")
    assert max(len(name) for name in names.all_inner_texts()) == 36
    assert screen.page.evaluate(HIDDEN) == []
