"""One browser for all tests of a process, and one hall with its web process for each module."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import sync_playwright

sys.path.append(str(Path(__file__).parents[1] / "system"))
sys.path.append(str(Path(__file__).parents[1] / "web"))

from screen import Screen, open_context
from web_process import WebHall

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx
    from playwright.sync_api import Browser, BrowserContext

GEARMAN = '[[door]]\ndialect = "gearman"\naddress = "127.0.0.1:0"\n'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, without a window. It is closed with the module: while it is open, Playwright keeps an
    event loop running in this thread, and tests of other modules could not run theirs.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium: scripts/install-test-clients installs it")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    options = [
        "--disable-gpu",
        "--disable-quic",
        "--disable-background-networking",
        "--disable-component-update",
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=[*sandbox, *options])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHall]:
    with WebHall(tmp_path_factory.mktemp("hall"), more=GEARMAN) as hall:
        yield hall


@pytest.fixture
def api(hall: WebHall) -> Iterator[httpx.Client]:
    with hall.api() as api:
        yield api


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """For all pages of a module: a page in a new context takes twice as long."""
    with open_context(browser) as context:
        yield context


@pytest.fixture
def screen(context: BrowserContext, hall: WebHall) -> Iterator[Screen]:
    """A page of the dashboard. The test fails if the page wrote an error or asked another host."""
    with Screen(context, hall.web) as screen:
        yield screen
        assert screen.faults == []
