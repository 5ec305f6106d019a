"""Whatever any dialect lets a peer set, the dashboard shows as text: no markup, no script, no other host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from hostile_peers import PEERS, settings
from playwright.sync_api import expect
from web_process import WebHall

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx
    from screen import Screen

TEXTS: Final = (
    "<img/src=//evil.example/x/onerror=window.hurt=1>",
    "\"'><svg/onload=window.hurt=1>",
    "</title></script><script>window.hurt=1</script>",
)
"""Without blanks and colons, so that every dialect takes them."""


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHall]:
    with WebHall(tmp_path_factory.mktemp("hall"), more=settings()) as hall:
        yield hall


@pytest.mark.parametrize("dialect", PEERS)
def test_what_a_peer_sets_is_shown_as_text(
    hall: WebHall, api: httpx.Client, screen: Screen, dialect: str
) -> None:
    """On one page for all texts: opening one costs more than following the paths of one text."""
    for text in TEXTS:
        with PEERS[dialect](hall, api, text) as sightings:
            for path, shown in sightings:
                screen.follow(path)
                expect(screen.page.locator("main")).to_contain_text(shown)
                assert screen.page.evaluate("window.hurt") is None, (text, path)
                assert screen.page.locator("main script, main [onload], main [onerror], main img").count() == 0
        screen.follow("/")
        assert screen.page.evaluate("window.hurt") is None, text
