"""The rest of the internet, on the loopback: a mail server, a news feed, and weblogs.com."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer, StreamRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FEED = b"""<?xml version="1.0"?>
<rss version="2.0"><channel><title>News</title>
  <item><guid>1</guid><title>Sea level unchanged</title></item>
  <item><guid>2</guid><title>Gears: are they round?</title></item>
  <item><guid>3</guid><title>Local man restarts web node</title></item>
</channel></rss>
"""


@contextmanager
def internet(folder: Path) -> Iterator[tuple[int, int]]:
    """The ports of its mail server and its web server. They write into the folder what they were sent."""
    with ExitStack() as stack:
        mail = stack.enter_context(MailServer(folder / "mailbox"))
        web = stack.enter_context(WebServer(folder / "pings.txt"))
        for server in (mail, web):
            stack.enter_context(serving(server))
        yield mail.server_address[1], web.server_address[1]


@contextmanager
def serving(server: BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


class MailServer(ThreadingTCPServer):
    """Takes every message and delivers none: each becomes a file in the mailbox."""

    def __init__(self, mailbox: Path) -> None:
        super().__init__(("127.0.0.1", 0), MailSession)
        self.mailbox = mailbox
        self.mailbox.mkdir()
        self.senders: set[str] = set()
        self.lock = threading.Lock()

    def knows(self, sender: str) -> bool:
        """A sender who was here before. Strangers are told to come again, as real servers do against spam."""
        with self.lock:
            known = sender in self.senders
            self.senders.add(sender)
            return known

    def keep(self, message: bytes) -> None:
        with self.lock:
            number = len(list(self.mailbox.iterdir())) + 1
            (self.mailbox / f"{number}.eml").write_bytes(message)


class MailSession(StreamRequestHandler):
    """As much of SMTP as it takes to be sent a message."""

    server: MailServer

    def handle(self) -> None:
        sender = ""
        self.say("220 mail.example.org")
        for line in self.rfile:
            words = line.decode().split()
            match words[0].upper() if words else "":
                case "EHLO" | "HELO" | "RSET" | "NOOP":
                    self.say("250 mail.example.org")
                case "MAIL":
                    sender = words[1]
                    self.say("250 go on")
                case "RCPT":
                    self.say("250 go on" if self.server.knows(sender) else "451 greylisted, come again")
                case "DATA":
                    self.say("354 end it with a dot")
                    self.server.keep(self.message())
                    self.say("250 taken")
                case "QUIT":
                    self.say("221 goodbye")
                    return
                case _:
                    self.say("500 what?")

    def message(self) -> bytes:
        lines: list[bytes] = []
        for line in self.rfile:
            if line == b".\r\n":
                return b"".join(lines)
            lines.append(line.removeprefix(b"."))
        raise ConnectionError("the sender left within a message")

    def say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class WebServer(ThreadingHTTPServer):
    """Has one feed, and writes down who pings it."""

    def __init__(self, pings: Path) -> None:
        super().__init__(("127.0.0.1", 0), WebRequest)
        self.pings = pings
        self.lock = threading.Lock()

    def ping(self, name: str, url: str) -> None:
        with self.lock, self.pings.open("a") as pings:
            pings.write(f"{name} {url}\n")


class WebRequest(BaseHTTPRequestHandler):
    server: WebServer

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/feed.rss":
            self.answer(200, FEED)
        elif url.path == "/ping":
            query = parse_qs(url.query)
            self.server.ping(query["name"][0], query["url"][0])
            self.answer(200, b"thanks for the ping")
        else:
            self.answer(404, b"")

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: the log of jobs has it all."""
