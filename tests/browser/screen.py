"""A page of the dashboard as a person uses it, and what it did wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, Self
from urllib.parse import urlsplit

from playwright.sync_api import expect

if TYPE_CHECKING:
    import re

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Request

TIMEOUT_MS: Final = 45_000
TABS_MAX: Final = 120
FOCUSED: Final = """() => {
  const one = document.activeElement;
  return [one.tagName, one.getAttribute("aria-label") ?? one.textContent.trim()];
}"""
FOLLOW: Final = """(path) => {
  const link = document.createElement("a");
  link.href = path;
  document.body.append(link);
  link.click();
  link.remove();
  return location.href === link.href;
}"""
"""True: the dashboard shows that page. False: the browser loads it."""
REFUSED: Final = "Failed to load resource"
"""What Chromium writes of a request that found nobody: it belongs to a hall that is away."""

expect.set_options(timeout=TIMEOUT_MS)


def open_context(
    browser: Browser,
    *,
    width: int = 1440,
    height: int = 900,
    theme: Literal["light", "dark"] = "light",
    own_certificate: bool = False,
) -> BrowserContext:
    """`own_certificate`: the web has one that the browser does not know."""
    viewport: Any = {"width": width, "height": height}
    context = browser.new_context(
        viewport=viewport, color_scheme=theme, reduced_motion="reduce", ignore_https_errors=own_certificate
    )
    context.set_default_timeout(TIMEOUT_MS)
    return context


class Screen:
    """A page of its own. What it stored is forgotten when it is closed."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.address = address
        self.faults: list[str] = []
        """Errors in the console, exceptions, and requests to other hosts."""
        self.away_expected = False
        """The test takes the hall or the web away: requests that find nobody are no fault."""
        self.page: Page = context.new_page()
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

    def follow(self, path: str) -> Self:
        """Go there as by a click on a link. Nothing is loaded again, which costs a sixth of `open`. The first
        page, the login, and the same page with another query are opened.
        """
        here, there = urlsplit(self.page.url).path, urlsplit(path).path
        if here in ("blank", "/login", there) or there == "/login":
            return self.open(path)
        assert self.page.evaluate(FOLLOW, path), f"{path} is no page of the dashboard"
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
        origin = "://".join(urlsplit(self.address)[:2])
        browser = self.page.context.new_cdp_session(self.page)
        browser.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "cookies,local_storage"})
        self.page.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
