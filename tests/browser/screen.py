"""A page of the dashboard as a person uses it, and what it did wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, Self
from urllib.parse import urlsplit

from playwright.sync_api import expect

if TYPE_CHECKING:
    import re

    from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request

TIMEOUT_MS: Final = 15_000
TABS_MAX: Final = 120
FOCUSED: Final = """() => {
  const one = document.activeElement;
  return [one.tagName, one.getAttribute("aria-label") ?? one.textContent.trim()];
}"""
REFUSED: Final = "Failed to load resource"
"""What Chromium writes of a request that found nobody: it belongs to a hall that is away."""

expect.set_options(timeout=TIMEOUT_MS)


class Screen:
    """One page in a browser context of its own."""

    def __init__(
        self,
        browser: Browser,
        address: str,
        *,
        width: int = 1440,
        height: int = 900,
        theme: Literal["light", "dark"] = "light",
        own_certificate: bool = False,
    ) -> None:
        """`own_certificate`: the web has one that the browser does not know."""
        self.address = address
        self.faults: list[str] = []
        """Errors in the console, exceptions, and requests to other hosts."""
        self.away_expected = False
        """The test takes the hall or the web away: requests that find nobody are no fault."""
        viewport: Any = {"width": width, "height": height}
        self._context = browser.new_context(
            viewport=viewport, color_scheme=theme, reduced_motion="reduce", ignore_https_errors=own_certificate
        )
        self._context.set_default_timeout(TIMEOUT_MS)
        self.page: Page = self._context.new_page()
        self.page.on("console", self._wrote)
        self.page.on("pageerror", lambda error: self.faults.append(f"{self.page.url}: {error}"))
        self.page.on("request", self._asked)

    def _wrote(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not (self.away_expected and REFUSED in message.text):
            self.faults.append(f"{self.page.url}: {message.text}")

    def _asked(self, request: Request) -> None:
        asked = urlsplit(request.url)
        if asked.scheme not in ("blob", "data") and asked.netloc != urlsplit(self.address).netloc:
            self.faults.append(f"{self.page.url} asked {request.url}")

    def open(self, path: str) -> Self:
        self.page.goto(self.address + path)
        expect(self.page.get_by_role("heading", level=1)).to_be_visible()
        return self

    def row(self, text: str) -> Locator:
        """The row of a table in which this stands."""
        return self.page.get_by_role("row").filter(has_text=text)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def says(self, text: str | re.Pattern[str]) -> None:
        """Waits until a note says so."""
        expect(self.page.locator("#notes")).to_contain_text(text)

    # --- the keyboard alone

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def go_to(self, name: str) -> None:
        """Press Tab until the focus is on what has this name."""
        seen: list[str] = []
        for _ in range(TABS_MAX):
            tag, label = self.page.evaluate(FOCUSED)
            if tag in ("A", "BUTTON", "INPUT", "SELECT", "TEXTAREA") and label == name:
                return
            seen.append(label[:40])
            self.press("Tab")
        raise AssertionError(f"the Tab key does not reach {name!r}; it met {seen[-12:]}")

    def activate(self, name: str) -> None:
        """Reach it with Tab, and press Enter."""
        self.go_to(name)
        self.press("Enter")

    def close(self) -> None:
        self._context.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
