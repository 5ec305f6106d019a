"""A hall that has something to show on every page: workers of several dialects, a flow, bids, dead letters."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hall_process import CODE, wait_until
from web_process import WebHall

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

HERE: Final = Path(__file__).parent
DOORS: Final = (
    '[[door]]\ndialect = "gearman"\naddress = "127.0.0.1:0"\n'
    '[[door]]\ndialect = "hire"\naddress = "127.0.0.1:0"\nperform_s = 1.5\nwindow_s = 1.0\n'
)
FLOW: Final = "genome-2026-11"
STEPS: Final = (
    ("fetch", 1),
    ("split", 1),
    ("align", 8),
    ("merge", 1),
    ("score", 12),
    ("report", 2),
    ("publish", 1),
)
"""The layers of the flow: each job waits for all jobs of the layer before. Nobody does the later ones."""
INVOICES: Final = 12
"""Every second one fails."""


@contextlib.contextmanager
def busy_hall(folder: Path) -> Iterator[WebHall]:
    """The hall, while its workers work."""
    # A traceback shows where the functions are: beside the hall, not where this file happens to be.
    shutil.copy(HERE / "shop.py", folder)
    with WebHall(folder, more=DOORS) as hall, contextlib.ExitStack() as programs:
        for _ in range(2):
            work = [sys.executable, "-m", "hiringhall", "work", "shop", "--processes", "2"]
            programs.enter_context(program(hall, work))
        gearman = ["gearman", "-h", "127.0.0.1", "-p", str(hall.ports[1]), "-w", "-f", "rev", "-f", "genome"]
        programs.enter_context(program(hall, [*gearman, "--", "rev"]))
        agents = [sys.executable, str(HERE / "agents.py"), f"tcp://127.0.0.1:{hall.ports[2]}"]
        programs.enter_context(program(hall, agents))
        with hall.api() as api:
            fill(api)
        yield hall


@contextlib.contextmanager
def program(hall: WebHall, command: list[str]) -> Iterator[None]:
    """A program that runs beside the hall until the end."""
    environment = {**os.environ, "PYTHONPATH": f"{hall.folder}:{CODE}", "HALL_URL": f"hall://{hall.address}"}
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(command, env=environment, stdin=nowhere, stdout=nowhere, stderr=nowhere)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def submit(api: httpx.Client, *jobs: dict[str, Any]) -> list[str]:
    answer = api.post("/jobs", json={"jobs": list(jobs)})
    answer.raise_for_status()
    ids: list[str] = answer.json()["ids"]
    return ids


def fill(api: httpx.Client) -> None:
    """Jobs in every situation, and schedules."""
    submit(api, *(call("billing.invoice", number, key=f"customer-{number}") for number in range(INVOICES)))
    wait_until(
        lambda: api.get("/queues/billing.invoice").json()["failed"] >= INVOICES // 2, "invoices failed", 60
    )
    api.post("/queues/billing.invoice/pause").raise_for_status()
    submit(api, call("billing.invoice", 100, key="customer-100"))
    hook = "https://example.org/hook"
    submit(api, *(call("webhook.deliver", f"{hook}/{n}", retries=3, backoff_s=600) for n in range(7)))
    keep_busy(api)
    submit(api, *(call("photos.transcode", f"holiday-{n}.mov", 240, key=f"holiday-{n}") for n in range(2)))
    later = {"delay_s": 3600.0}
    submit(api, *(call("mail.send", "anna@example.org", "Reminder", **later) for _ in range(3)))
    submit(api, *({"queue": "search.index", "payload": f"page {number}"} for number in range(9)))
    submit(api, *({"queue": "village.bake", "key": f"bread-{number}"} for number in range(14)))
    submit(api, {"queue": "village.bake", "key": "wedding cake", "skill": 95})
    make_flow(api)
    make_schedules(api)


def keep_busy(api: httpx.Client) -> None:
    """Work for half a minute."""
    photos = [f"photo-{number:06}" for number in range(400)]
    submit(api, *(call("photos.resize", f"{photo}.jpg", [320, 640, 1280], key=photo) for photo in photos))
    submit(api, *(call("mail.send", f"person-{n}@example.org", "Your photos") for n in range(600)))


def call(queue: str, *arguments: object, **terms: object) -> dict[str, Any]:
    """A job of a function of the shop."""
    return {"queue": queue, "json": list(arguments), **terms}


def make_flow(api: httpx.Client) -> None:
    before: list[str] = []
    for layer, (name, count) in enumerate(STEPS):
        queue = "genome" if layer < 4 else "cluster"
        common = {"queue": queue, "flow": FLOW, "parents": before}
        before = submit(api, *({**common, "payload": name, "key": f"{name}-{n}"} for n in range(count)))


def make_schedules(api: httpx.Client) -> None:
    schedules: tuple[dict[str, Any], ...] = (
        {"name": "digest", "queue": "mail.send", "payload": '["anna@example.org", "Digest"]', "every_s": 900},
        {"name": "invoices", "queue": "billing.invoice", "payload": "[2]", "cron": "0 6 1 * *"},
        {"name": "nightly-backup", "queue": "backup", "cron": "30 3 * * *", "timezone": "Europe/Vienna"},
    )
    for schedule in schedules:
        api.post("/schedules", json=schedule).raise_for_status()
    api.post("/schedules/invoices/pause").raise_for_status()
