"""The application: it hands in the tasks of the draft's summary, with the names, keys and types given there.

The crons are not its business: they are the schedules in hall.toml.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from journal import letter
from nodes import restart_web_nodes

from hiringhall.peers.gearman_draft.blocking import Client, ResultLog

if TYPE_CHECKING:
    from datetime import datetime

    from nodes import WebNode

    from hiringhall.peers.gearman_draft import Job
    from hiringhall.records import History

TIMEOUT_S = 20
GALLERY = ("gallery/4/sea.png", "gallery/4/sand.png", "gallery/4/sun.png")
USERPICS = ("userpic/9.png",)


def run_all(hall: str, history: History, nodes: list[WebNode], now: datetime) -> None:
    """Hand everything in, and return when the log has the end of it all."""
    today, this_hour = f"{now:%Y-%m-%d}", f"{now:%d-%H}"
    welcome = letter("support", "ben@example.org", "Welcome", "Have a nice time.")
    with Client(hall, timeout_s=TIMEOUT_S) as client:
        jobs = [
            client.submit("mail", bytes(welcome)),
            client.submit("resize", order(GALLERY, 640, 480), key="1-4-640-480"),
            client.submit("thumbgen", order(USERPICS, 100, 100), key="1-9-100-100"),
            client.submit("dirty", b"friends-1", key="friends-1"),
            client.submit("dirty", b"backup-1", key="backup-1"),
            client.submit("rss", b"3", key="3"),
        ]
        client.throw_away("weblogscom", b"1", key="1")
        client.throw_away("captcha", key=this_hour)
        restart(hall, nodes, today)
        greet(client, history, today)
        for job in jobs:
            client.wait(job)
    for name in ("weblogscom", "captcha", "pay_updateaccounts", "clean_caches"):
        wait_for_log(history, name)


def order(images: tuple[str, ...], width: int, height: int) -> bytes:
    return json.dumps({"images": images, "size": (width, height)}).encode()


def greet(client: Client, history: History, today: str) -> None:
    """Have birthday mails sent. Three web nodes think of it, two of them at the same time: one job is done."""
    first, second = (submit_once(client, history, "bday", today) for _ in range(2))
    assert first is not None
    assert second is None or second.handle == first.handle, "the second joins the first, if that is not over"
    client.wait(first)
    third = submit_once(client, history, "bday", today)
    assert third is None, "the third finds it in the log"


def submit_once(client: Client, history: History, name: str, key: str) -> Job | None:
    """Submit a job unless one with this key was done; one that is under way is joined by the hall itself."""
    if any(history.find(queue=name, key=key, state="done", limit=1)):
        return None
    return client.submit(name, key.encode(), key=key)


def restart(hall: str, nodes: list[WebNode], today: str) -> None:
    """No worker can do this for us; but people want to find it in the log, so we tell the hall of it."""
    task = ("restart_web_nodes", today)
    with ResultLog(hall, timeout_s=TIMEOUT_S) as log:
        log.register_start_task(task)
        try:
            result = restart_web_nodes(nodes)
        except Exception as error:
            log.register_task_result(task, result=repr(error).encode(), code=1)
            raise
        log.register_task_result(task, result=result.encode())


def wait_for_log(history: History, name: str) -> None:
    """Wait for the end of a job that nobody has a handle of."""
    give_up_s = time.monotonic() + TIMEOUT_S
    while not any(history.find(queue=name, limit=1)):
        if time.monotonic() > give_up_s:
            raise TimeoutError(f"{name} has not ended within {TIMEOUT_S} s")
        time.sleep(0.1)
