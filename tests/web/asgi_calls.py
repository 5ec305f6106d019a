"""Calls an ASGI application with exactly the bytes that a test states."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hiringhall.web.guard import App, Message

Fields = tuple[tuple[str, str], ...]


class Reply(NamedTuple):
    """The answer to a call."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The code of a problem document."""
        return str(msgspec.json.decode(self.body)["code"])


def call(
    app: App,
    method: str = "GET",
    path: str = "/",
    fields: Sequence[tuple[str, str]] = (),
    body: Sequence[bytes] = (),
    client: tuple[str, int] = ("127.0.0.1", 40_000),
) -> Reply:
    """Send one request; `body` in these pieces."""
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in fields],
        "client": client,
    }
    incoming: list[Message] = [
        {"type": "http.request", "body": piece, "more_body": index + 1 < len(body)}
        for index, piece in enumerate(body)
    ] or [{"type": "http.request", "body": b"", "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        return incoming.pop(0) if incoming else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]
    start, *rest = sent
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    return Reply(start["status"], headers, b"".join([message.get("body", b"") for message in rest]))
