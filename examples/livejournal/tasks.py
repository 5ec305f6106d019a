"""The tasks of the draft's summary, as workers do them. Each returns one line for the log.

A worker is told a job's name and args, not its key; so what the key says of it stands in the args too. A job
that was cut short runs again: each of them (but mail, which cannot know) leaves alone what it finds done.
"""

from __future__ import annotations

import json
import random
import secrets
import smtplib
import time
from contextlib import suppress
from email import message_from_bytes, policy
from http.client import HTTPConnection
from typing import TYPE_CHECKING
from urllib.parse import urlencode
from xml.etree import ElementTree as ET

from journal import letter
from PIL import Image, ImageDraw, ImageFont, ImageOps

from hiringhall.peers.gearman_draft import TaskError

if TYPE_CHECKING:
    from collections.abc import Callable
    from email.message import EmailMessage
    from pathlib import Path

    from journal import Journal

    from hiringhall.peers.gearman_draft import Task

TRY_AGAIN_LATER = 75  # the exit code of Unix mailers for it
CAPTCHAS_READY = 5
LETTERS = "ABCDEFHKLMNPRSTUVWXYZ"  # those that people can tell apart


def mail(journal: Journal, task: Task) -> str:
    """Send a message; args: all of it, in MIME."""
    message = message_from_bytes(task.args, policy=policy.SMTP)
    post(journal, message)
    return f"sent to {message['To']}"


def resize(journal: Journal, task: Task) -> str:
    """Make images of a gallery fit; args: which ones, and into what."""
    order = json.loads(task.args)
    for done, name in enumerate(order["images"]):
        task.status(done, len(order["images"]))
        with Image.open(journal.folder / name) as image:
            image.thumbnail(order["size"])
            image.save(resized(journal.folder / name, order["size"]))
    return f"images made to fit {spell(order['size'])}: {len(order['images'])}"


def thumbgen(journal: Journal, task: Task) -> str:
    """Cut thumbnails out of pictures of users, before anybody wants to see them; args as above."""
    order = json.loads(task.args)
    for name in order["images"]:
        with Image.open(journal.folder / name) as image:
            ImageOps.fit(image, order["size"]).save(resized(journal.folder / name, order["size"]))
    return f"thumbnails of {spell(order['size'])}: {len(order['images'])}"


def pay_updateaccounts(journal: Journal, task: Task) -> str:
    """Cron: accounts that are paid no more become free; args: as of which day."""
    lapsed = journal.ask(
        "UPDATE user SET account = 'free' WHERE account = 'paid' AND paid_until < ? RETURNING name",
        task.args.decode(),
    )
    return f"accounts lapsed: {len(lapsed)}"


def clean_caches(journal: Journal, task: Task) -> str:
    """Cron: pages that are too old go; args: how many hours that is."""
    oldest_s = time.time() - 3600 * int(task.args)
    removed = 0
    for page in (journal.folder / "cache").iterdir():
        with suppress(FileNotFoundError):  # the run before this one may be slow, and at it still
            if page.stat().st_mtime < oldest_s:
                page.unlink()
                removed += 1
    return f"pages removed: {removed}"


def dirty(journal: Journal, task: Task) -> str:
    """Bring up to date what depends on a user's data; args: friends-uid or backup-uid."""
    what, uid = task.args.decode().split("-")
    return {"friends": flush_friends, "backup": flush_backup}[what](journal, int(uid))


def flush_friends(journal: Journal, uid: int) -> str:
    rows = journal.ask("SELECT name FROM friend JOIN user USING (uid) WHERE friend_uid = ? ORDER BY name", uid)
    names = " ".join(name for (name,) in rows)
    journal.ask("INSERT OR REPLACE INTO friend_of VALUES (?, ?)", uid, names)
    return f"friend of {names}"


def flush_backup(journal: Journal, uid: int) -> str:
    entries = [subject for (subject,) in journal.ask("SELECT subject FROM entry WHERE uid = ?", uid)]
    (journal.folder / f"backup-{uid}.json").write_text(json.dumps(entries))
    return f"entries: {len(entries)}"


def weblogscom(journal: Journal, task: Task) -> str:
    """Tell weblogs.com that a journal has something new; args: the user's id."""
    [[name]] = journal.ask("SELECT name FROM user WHERE uid = ?", int(task.args))
    address = {"name": name, "url": f"http://livejournal.example/users/{name}/"}
    return fetch(journal, f"/ping?{urlencode(address)}").decode()


def rss(journal: Journal, task: Task) -> str:
    """Fetch a feed and keep what is new in it; args: the id of the user that stands for it."""
    uid = int(task.args)
    [[path]] = journal.ask("SELECT feed FROM user WHERE uid = ?", uid)
    feed = ET.fromstring(fetch(journal, path))  # noqa: S314 (expat itself stops entity bombs)
    new = 0
    for item in feed.iter("item"):
        row = (uid, item.findtext("guid"), item.findtext("title"))
        new += len(journal.ask("INSERT OR IGNORE INTO item VALUES (?, ?, ?) RETURNING guid", *row))
    return f"new items: {new}"


def captcha(journal: Journal, task: Task) -> str:
    """Have enough riddles ready for the next hour; args: none."""
    (journal.folder / "captcha").mkdir(exist_ok=True)
    [[ready]] = journal.ask("SELECT count(*) FROM captcha")
    for done in range(ready, CAPTCHAS_READY):
        task.status(done, CAPTCHAS_READY)
        picture = f"captcha/{secrets.token_hex(8)}.png"
        answer = "".join(secrets.choice(LETTERS) for _ in range(5))
        draw_captcha(answer).save(journal.folder / picture)
        journal.ask("INSERT INTO captcha VALUES (?, ?)", picture, answer)
    return f"new captchas: {CAPTCHAS_READY - ready}"


def bday(journal: Journal, task: Task) -> str:
    """Congratulate those whose birthday it is, each once; args: the day."""
    day = task.args.decode()
    people = journal.ask(
        "SELECT uid, name, email FROM user WHERE substr(birthday, 6) = substr(?, 6) "
        "AND uid NOT IN (SELECT uid FROM greeted WHERE day = ?)",
        *(day, day),
    )
    for uid, name, email in people:
        post(journal, letter("birthdays", email, f"Happy birthday, {name}!", "All the best to you."))
        journal.ask("INSERT INTO greeted VALUES (?, ?)", uid, day)
    return f"people greeted: {len(people)}"


TASKS: dict[str, Callable[[Journal, Task], str]] = {
    task.__name__: task
    for task in (
        *(mail, resize, thumbgen, pay_updateaccounts, clean_caches),
        *(dirty, weblogscom, rss, captcha, bday),
    )
}


def post(journal: Journal, message: EmailMessage) -> None:
    """Send a message, or fail with the code that says: later perhaps. The hall will try again."""
    try:
        journal.send(message)
    except smtplib.SMTPRecipientsRefused as refused:
        [(_, reason)] = refused.recipients.values()
        raise TaskError(TRY_AGAIN_LATER, reason) from refused


def fetch(journal: Journal, path: str) -> bytes:
    connection = HTTPConnection("127.0.0.1", journal.web_port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        if answer.status != 200:
            raise TaskError(1, f"{path}: {answer.status} {answer.reason}".encode())
        return answer.read()
    finally:
        connection.close()


def resized(image: Path, size: list[int]) -> Path:
    """Where the smaller version of an image goes: sea-640x480.png beside sea.png."""
    return image.with_stem(f"{image.stem}-{spell(size)}")


def spell(size: list[int]) -> str:
    return "x".join(map(str, size))


def draw_captcha(answer: str) -> Image.Image:
    """Letters that dance, under a wire fence."""
    image = Image.new("L", (40 * len(answer), 60), "white")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(size=36)
    dice = random.Random()  # noqa: S311 (only the answer is a secret)
    for place, char in enumerate(answer):
        draw.text((40 * place + dice.randrange(14), dice.randrange(16)), char, "black", font)
    for _ in range(8):
        ends = [(dice.randrange(image.width), dice.randrange(image.height)) for _ in range(2)]
        draw.line(ends, "gray", width=2)
    return image
