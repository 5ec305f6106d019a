"""A hall that has something to show on every page: workers of several dialects, a flow, dead letters, schedules."""

from __future__ import annotations

import contextlib
import os
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
HIRE: Final = '[[door]]\ndialect = "hire"\naddress = "127.0.0.1:0"\n'
GEARMAN: Final = '[[door]]\ndialect = "gearman"\naddress = "127.0.0.1:0"\n'
STEPS: Final = (
    ("fetch", 1),
    ("split", 1),
    ("align", 8),
    ("merge", 1),
    ("score", 12),
    ("report", 2),
    ("publish", 1),
)
"""The layers of the flow: each job waits for all jobs of the layer before."""


@contextlib.contextmanager
def busy_hall(folder: Path) -> Iterator[WebHall]:
    """The hall, while its workers work."""
    with WebHall(folder, more=GEARMAN + HIRE) as hall, contextlib.ExitStack() as programs:
        for _ in range(2):
            words = ("work", "shop", "--processes", "2")
            programs.enter_context(program(hall, [sys.executable, "-m", "hiringhall", *words]))
        gearman = ["gearman", "-h", "127.0.0.1", "-p", str(hall.ports[1])]
        programs.enter_context(program(hall, [*gearman, "-w", "-f", "rev", "-f", "genome", "--", "rev"]))
        with hall.api() as api:
            fill(api)
            yield hall


@contextlib.contextmanager
def program(hall: WebHall, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs beside the hall until the end."""
    environment = {**os.environ, "PYTHONPATH": f"{HERE}:{CODE}", "HALL_URL": f"hall://{hall.address}"}
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def submit(api: httpx.Client, *jobs: dict[str, Any]) -> list[str]:
    answer = api.post("/jobs", json={"jobs": list(jobs)})
    answer.raise_for_status()
    ids: list[str] = answer.json()["ids"]
    return ids


def fill(api: httpx.Client) -> None:
    """Jobs in every situation."""
    letters = [
        {"queue": "billing.invoice", "json": [number], "key": f"customer-{number}"} for number in range(12)
    ]
    submit(api, *letters)
    wait_until(lambda: api.get("/queues/billing.invoice").json()["failed"] >= 6, "six invoices failed", 60)
    api.post("/queues/billing.invoice/pause")
    submit(api, {"queue": "billing.invoice", "json": [100], "key": "customer-100"})
    submit(
        api,
        *[
            {
                "queue": "webhook.deliver",
                "json": [f"https://example.org/hook/{number}"],
                "retries": 3,
                "backoff_s": 90,
            }
            for number in range(7)
        ],
    )
    photos = [
        {
            "queue": "photos.resize",
            "json": [f"photo-{number:06}.jpg", [320, 640, 1280]],
            "key": f"photo-{number:06}",
        }
        for number in range(400)
    ]
    submit(api, *photos)
    submit(
        api,
        *[
            {"queue": "mail.send", "json": [f"person-{number}@example.org", "Your photos"]}
            for number in range(600)
        ],
    )
    submit(
        api,
        *[
            {"queue": "photos.transcode", "json": [f"holiday-{number}.mov", 240], "key": f"holiday-{number}"}
            for number in range(2)
        ],
    )
    submit(
        api,
        *[
            {"queue": "mail.send", "json": ["anna@example.org", "Reminder"], "delay_s": 3600 * number}
            for number in (1, 5, 24)
        ],
    )
    submit(api, *[{"queue": "search.index", "payload": f"page {number}"} for number in range(9)])
    make_flow(api)
    schedule = {"queue": "mail.send", "payload": '["anna@example.org", "Digest"]'}
    api.post("/schedules", json={"name": "digest", "every_s": 900, **schedule}).raise_for_status()
    cron = {
        "name": "nightly-backup",
        "queue": "backup",
        "payload": "all",
        "cron": "30 3 * * *",
        "timezone": "Europe/Vienna",
    }
    api.post("/schedules", json=cron).raise_for_status()
    api.post(
        "/schedules",
        json={"name": "invoices", "queue": "billing.invoice", "payload": "[2]", "cron": "0 6 1 * *"},
    )
    api.post("/schedules/invoices/pause")


def make_flow(api: httpx.Client) -> None:
    before: list[str] = []
    for layer, (name, count) in enumerate(STEPS):
        queue = "genome" if layer < 4 else "cluster"
        jobs = [
            {
                "queue": queue,
                "payload": f"{name} {number}",
                "key": f"{name}-{number}",
                "flow": "genome-2026-11",
                "parents": before,
            }
            for number in range(count)
        ]
        before = submit(api, *jobs)
