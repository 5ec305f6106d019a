"""The page says when hall or web are away, and mends itself when they are back."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from hall_process import free_port
from playwright.sync_api import expect
from screen import Screen
from web_process import WebHall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import BrowserContext


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHall]:
    """At a port of its own, which is the same after a restart."""
    with WebHall(tmp_path_factory.mktemp("hall"), web=f"127.0.0.1:{free_port()}") as hall:
        yield hall


@pytest.fixture
def screen(context: BrowserContext, hall: WebHall) -> Iterator[Screen]:
    with Screen(context, hall.web) as screen:
        screen.away_expected = True
        yield screen
        assert screen.faults == []


def banner_passes(screen: Screen) -> None:
    banner = screen.page.locator(".banner")
    expect(banner).not_to_contain_text("does not answer", timeout=40_000)
    expect(banner).to_have_text("")


def test_the_history_is_there_after_kill_9_of_the_hall_and_the_page_mends_itself(
    hall: WebHall, screen: Screen
) -> None:
    with hall.native() as peer:
        peer.work(b"durable")
        job = peer.submit(b"durable", b"x", durable=True)
        peer.ask("finish", [peer.hear("assign")[0], b"kept result"])
    screen.open("/history?queue=durable")
    expect(screen.row(str(job))).to_contain_text("kept result")
    screen.page.evaluate("window.stillHere = true")
    hall.kill()
    expect(screen.page.locator(".banner")).to_contain_text("does not answer")
    hall.start()
    banner_passes(screen)
    expect(screen.row(str(job))).to_contain_text("kept result")
    with hall.native() as peer:
        peer.work(b"durable")
        later = peer.submit(b"durable", b"y", durable=True)
        peer.ask("finish", [peer.hear("assign")[0], b"after the restart"])
    expect(screen.row(str(later))).to_contain_text("after the restart")
    assert screen.page.evaluate("window.stillHere") is True


def test_the_page_comes_back_after_kill_9_of_the_web_process(hall: WebHall, screen: Screen) -> None:
    screen.open("/queues")
    before = hall.web_pid()
    os.kill(before, signal.SIGKILL)
    with hall.native() as peer:
        peer.submit(b"meanwhile", b"x")
    expect(screen.row("meanwhile")).to_be_visible(timeout=40_000)
    banner_passes(screen)
    assert hall.web_pid() != before
