"""A very small LiveJournal: pictures in a folder, people in a database, a mail server and a web around it."""

from __future__ import annotations

import os
import smtplib
import sqlite3
import time
from contextlib import closing
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from PIL import Image

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

TABLES = """
CREATE TABLE user (uid INTEGER PRIMARY KEY, name, email, birthday, account, paid_until, feed);
CREATE TABLE friend (uid, friend_uid);
CREATE TABLE friend_of (uid PRIMARY KEY, names);
CREATE TABLE entry (uid, subject);
CREATE TABLE item (uid, guid, title, PRIMARY KEY (uid, guid));
CREATE TABLE captcha (picture PRIMARY KEY, answer);
CREATE TABLE greeted (uid, day, PRIMARY KEY (uid, day));

INSERT INTO friend VALUES (2, 1), (3, 1), (1, 2);
INSERT INTO entry VALUES (1, 'Hello, world'), (1, 'We went to the sea');
"""


class Journal(NamedTuple):
    """Where everything is; the application and each worker have one."""

    folder: Path
    mail_port: int
    web_port: int

    @classmethod
    def found(cls, folder: Path, mail_port: int, web_port: int, today: date) -> Self:
        """A new journal: ann has her birthday today, ben forgot to pay, news is somebody else's feed."""
        journal = cls(folder, mail_port, web_port)
        with closing(journal.database()) as database:
            database.executescript(TABLES)
        people = (
            (1, "ann", "ann@example.org", f"1980{today:-%m-%d}", "paid", "9999-12-31", None),
            (2, "ben", "ben@example.org", "1980-00-00", "paid", "2004-06-01", None),
            (3, "news", "news@example.org", "1980-00-00", "free", None, "/feed.rss"),
        )
        for person in people:
            journal.ask("INSERT INTO user VALUES (?, ?, ?, ?, ?, ?, ?)", *person)
        for name, colour in (("sea", "teal"), ("sand", "khaki"), ("sun", "gold")):
            journal.paint(f"gallery/4/{name}.png", colour)
        journal.paint("userpic/9.png", "orchid")
        stale = folder / "cache" / "yesterday.html"
        stale.parent.mkdir()
        stale.write_text("<p>We went to the sea")
        yesterday_s = time.time() - 86_400
        os.utime(stale, (yesterday_s, yesterday_s))
        return journal

    def paint(self, name: str, colour: str) -> None:
        """Make a picture that is far too large."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (1600, 1000), colour).save(path)

    def database(self) -> sqlite3.Connection:
        return sqlite3.connect(self.folder / "journal.sqlite3")

    def ask(self, statement: str, *values: object) -> list[Any]:
        """Run one statement of SQL, as a transaction of its own; its rows."""
        with closing(self.database()) as database, database:
            return database.execute(statement, values).fetchall()

    def send(self, message: EmailMessage) -> None:
        with smtplib.SMTP("127.0.0.1", self.mail_port) as server:
            server.send_message(message)


def letter(sender: str, recipient: str, subject: str, text: str) -> EmailMessage:
    message = EmailMessage()
    message["From"] = f"{sender}@livejournal.example"
    message["To"] = recipient
    message["Subject"] = subject
    message.set_content(text)
    return message
