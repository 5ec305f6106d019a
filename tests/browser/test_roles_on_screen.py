"""Over TLS, with tokens: the login, and what each role is offered and may do."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect
from screen import Screen, open_context
from web_process import WebHall

from hiringhall.access.tokens import TokenList
from hiringhall.storage.data_folder import DataFolder
from stage.authority import make_authority

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext

OPERATORS: Final = ("Pause shop", "Retry all dead letters of shop", "Drain ada", "New job", "Run now nightly")
ADMINS: Final = ("New schedule", "Remove nightly", "Audit log")
PAGES: Final = (
    "/queues",
    "/workers",
    "/jobs",
    "/history?state=failed",
    "/schedules",
    "/settings",
    "/flows/family",
)
ASK: Final = """async ([method, path]) => {
  const headers = { "X-Requested-By": "dashboard" };
  const answer = await fetch(`/api/v1${path}`, { method, headers });
  return [answer.status, (await answer.json()).code ?? ""];
}"""


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHall]:
    """A hall whose web other machines reach, with a token for each role and something to act on."""
    folder = tmp_path_factory.mktemp("hall")
    authority = make_authority(folder, "web")
    tls = f'[web.tls]\ncertificate = "{authority.server}"\nkey = "{authority.server_key}"\n'
    hall = WebHall(folder, web="0.0.0.0:0", more=f'hosts = ["localhost"]\n{tls}')
    hall.data.mkdir(mode=0o700)
    for role in ("viewer", "operator", "admin"):
        (folder / role).write_text(
            TokenList(DataFolder(hall.data)).add(f"some-{role}", role, datetime.now(UTC), None)
        )
    with hall, hall.native() as worker:
        worker.work(b"shop", name=b"ada")
        worker.submit(b"shop", b"", durable=True)
        worker.ask("fail", [worker.hear("assign")[0], 1, b"no", False])
        worker.submit(b"rest", b"", b"", durable=True, flow=b"family")
        schedule = {"name": "nightly", "queue": "rest", "payload": b"", "cron": "30 3 * * *"}
        worker.ask("schedule", schedule)
        yield hall


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    with open_context(browser, own_certificate=True) as context:
        yield context


@pytest.fixture
def screen(context: BrowserContext, hall: WebHall) -> Iterator[Screen]:
    address = f"https://localhost:{hall.web.rpartition(':')[2]}"
    with Screen(context, address) as screen:
        screen.away_expected = True  # Chromium writes of the statuses 401 and 403, too
        yield screen
        assert screen.faults == []


def log_in(screen: Screen, hall: WebHall, role: str) -> None:
    """By keyboard: the field has the focus."""
    screen.open("/queues")
    expect(screen.page.get_by_role("heading", level=1)).to_have_text("Log in")
    screen.page.keyboard.type((hall.folder / role).read_text())
    screen.press("Enter")
    expect(screen.page).to_have_url(re.compile(r"/queues$"))
    expect(screen.page.get_by_text(f"some-{role}, {role}")).to_be_visible()


def offered(screen: Screen, *names: str) -> set[str]:
    """Which of these buttons are on any page."""
    found: set[str] = set()
    for path in PAGES:
        screen.follow(path)
        expect(screen.page.locator("[aria-busy=true]")).to_have_count(0)
        found |= {name for name in names if screen.button(name).count()}
    return found


def ask(screen: Screen, method: str, path: str) -> Any:
    """What a page of ours is told that asks by itself."""
    return screen.page.evaluate(ASK, [method, path])


def test_a_wrong_token_is_refused_and_the_next_may_be_right(screen: Screen, hall: WebHall) -> None:
    screen.open("/jobs?queue=shop")
    expect(screen.page).to_have_url(re.compile(r"/login\?next="))
    screen.page.get_by_label("Token").fill("hall_" + "A" * 43)
    screen.button("Log in").click()
    expect(screen.page.get_by_role("alert")).to_contain_text("This token is not valid")
    screen.page.get_by_label("Token").fill((hall.folder / "viewer").read_text())
    screen.button("Log in").click()
    expect(screen.page).to_have_url(re.compile(r"/jobs\?queue=shop$"))
    expect(screen.page.get_by_role("heading", level=1)).to_have_text("Jobs")


def test_a_viewer_sees_everything_and_is_offered_nothing(screen: Screen, hall: WebHall) -> None:
    log_in(screen, hall, "viewer")
    assert offered(screen, *OPERATORS, *ADMINS, "Cancel") == set()
    screen.open("/history?state=failed")
    expect(screen.row("shop")).to_be_visible()
    assert screen.page.get_by_role("checkbox").count() == 0
    screen.open("/settings?part=audit")
    expect(screen.page.get_by_role("table", name="Doors")).to_be_visible()
    for method, path in (("POST", "/queues/shop/pause"), ("DELETE", "/schedules/nightly"), ("GET", "/audit")):
        assert ask(screen, method, path) == [403, "forbidden"]


def test_an_operator_acts_and_changes_no_schedule(screen: Screen, hall: WebHall) -> None:
    log_in(screen, hall, "operator")
    assert offered(screen, *OPERATORS, *ADMINS, "Cancel") == {*OPERATORS, "Cancel"}
    for method, path in (("DELETE", "/schedules/nightly"), ("GET", "/settings"), ("GET", "/audit")):
        assert ask(screen, method, path) == [403, "forbidden"]
    screen.open("/queues")
    screen.activate("Pause shop")
    screen.says("shop is paused")
    screen.activate("Resume shop")
    screen.says("shop goes on")


def test_an_admin_is_offered_all_and_the_audit_log_says_who_did_what(screen: Screen, hall: WebHall) -> None:
    log_in(screen, hall, "admin")
    assert offered(screen, *OPERATORS, *ADMINS, "Cancel") == {*OPERATORS, *ADMINS, "Cancel"}
    screen.open("/schedules")
    screen.activate("Run now nightly")
    screen.says("nightly ran")
    screen.open("/settings?part=audit")
    expect(screen.row("some-admin").first).to_contain_text("run_schedule")


def test_after_the_logout_every_page_asks_for_a_token(screen: Screen, hall: WebHall) -> None:
    log_in(screen, hall, "viewer")
    screen.activate("Log out")
    expect(screen.page.get_by_role("heading", level=1)).to_have_text("Log in")
    screen.open("/workers")
    expect(screen.page).to_have_url(re.compile(r"/login\?next=%2Fworkers$"))
    assert ask(screen, "GET", "/workers") == [401, "unauthorized"]


def test_a_page_whose_token_is_revoked_asks_for_another(screen: Screen, hall: WebHall) -> None:
    (hall.folder / "brief").write_text(
        TokenList(DataFolder(hall.data)).add("some-brief", "viewer", datetime.now(UTC), None)
    )
    screen.open("/queues")
    field = screen.page.get_by_label("Token")
    field.fill((hall.folder / "brief").read_text())
    screen.button("Log in").click()
    expect(screen.page.get_by_text("some-brief, viewer")).to_be_visible()
    TokenList(DataFolder(hall.data)).revoke("some-brief")
    expect(screen.page.get_by_role("heading", level=1)).to_have_text("Log in")
