"""Takes the pictures of docs/dashboard.md from a real, busy hall: `make pictures`.

Each page is taken 1440 and 390 pixels wide, in light and dark, as docs/images/dashboard-PAGE-WIDTH-THEME.png.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from PIL import Image
from playwright.sync_api import sync_playwright

HERE: Final = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "system"), str(HERE.parent / "web")]

from busy_hall import FLOW, busy_hall, keep_busy  # noqa: E402 (after the paths)
from screen import Screen, open_context  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from web_process import WebHall

IMAGES: Final = HERE.parents[1] / "docs" / "images"
SIZES: Final = ((1440, 900), (390, 844))
THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
COLOURS: Final = 192
"""Enough for flat surfaces and text; a picture is a third of its size."""
KMEANS: Final = 2
WATCHED_MS: Final = 20_000
"""How long the overview is watched before its live charts are taken."""
SETTLED_MS: Final = 1500


def pages(hall: WebHall) -> dict[str, str]:
    """Name and path of each page."""
    with hall.api() as api:
        running = api.get("/jobs", params={"queue": "photos.transcode"}).json()["items"][0]["id"]
        failed = api.get("/history", params={"state": "failed"}).json()["items"][0]["id"]
        held = api.get("/jobs", params={"situation": "held"}).json()["items"][0]["id"]
        worker = api.get("/workers", params={"dialect": "native"}).json()["items"][0]["number"]
    return {
        "overview": "/",
        "queues": "/queues",
        "queue": "/queues/photos.resize?span=1h",
        "jobs": "/jobs",
        "job": f"/jobs/{running}",
        "failed": f"/jobs/{failed}",
        "flows": "/flows",
        "flow": f"/flows/{FLOW}",
        "graph": f"/graph?job={held}",
        "workers": "/workers",
        "worker": f"/workers/{worker}",
        "auctions": "/auctions",
        "schedules": "/schedules",
        "history": "/history?state=failed",
        "settings": "/settings?part=audit",
        "login": "/login",
    }


def take(screen: Screen, name: str, path: str, width: int, theme: str) -> None:
    screen.open(path)
    screen.page.wait_for_timeout(WATCHED_MS if name == "overview" else SETTLED_MS)
    picture = Image.open(io.BytesIO(screen.page.screenshot())).convert("RGB")
    target = IMAGES / f"dashboard-{name}-{width}-{theme}.png"
    # These colours include the rare ones, such as the red of a dot; the means keep the large surfaces exact.
    few = picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, KMEANS, dither=Image.Dither.NONE)
    few.save(target, optimize=True)
    sys.stdout.write(f"{target.name}: {target.stat().st_size:,} bytes\n")


def take_all(browser: Browser, hall: WebHall) -> None:
    """All pages of one size and theme share a page, so that its charts have a past."""
    chosen = pages(hall)
    for width, height in SIZES:
        for theme in THEMES:
            with hall.api() as api:
                keep_busy(api)
            with (
                open_context(browser, width=width, height=height, theme=theme) as context,
                Screen(context, hall.web) as screen,
            ):
                for name, path in chosen.items():
                    take(screen, name, path, width, theme)
                if screen.faults:
                    sys.exit("\n".join(screen.faults))


def main() -> None:
    os.environ["HALL_WEB_ENABLED"] = "true"
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with (
        tempfile.TemporaryDirectory() as folder,
        busy_hall(Path(folder)) as hall,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=[*sandbox, "--disable-gpu"]
        )
        take_all(browser, hall)
        browser.close()


if __name__ == "__main__":
    main()
