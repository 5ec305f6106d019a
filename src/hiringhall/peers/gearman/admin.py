"""The text admin protocol, over a separate connection: sends one line, receives a line or a table."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from hiringhall.peers.gearman.connection import parse_address
from hiringhall.peers.gearman.errors import ConnectionLost, ServerError
from hiringhall.peers.stream import describe_os_error

if TYPE_CHECKING:
    from ssl import SSLContext

_TABLES: Final = frozenset(("status", "prioritystatus", "workers", "jobs", "show jobs", "show unique jobs"))
"""Commands whose answer ends with a line that has a single dot."""
_LINE_BYTES_MAX: Final = 1 << 20


async def ask_admin(server: str, command: str, timeout_s: float, tls: SSLContext | None = None) -> list[str]:
    """The lines of the answer, without the final dot. Raises ServerError for an ERR."""
    if "\n" in command:
        raise ValueError(f"a command must be one line: {command!r}")
    host, port = parse_address(server)
    line = command.encode() + b"\n"
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port, limit=_LINE_BYTES_MAX, ssl=tls)
            try:
                writer.write(line)
                return await _read(server, reader, command.lower().strip() in _TABLES)
            finally:
                writer.close()
    except TimeoutError:
        raise ConnectionLost(f"{server}: no answer to {command!r} within {timeout_s} s") from None
    except OSError as error:
        raise ConnectionLost(f"{server}: {describe_os_error(error)}") from error
    except ValueError as error:
        # The host name is invalid, or a line of the answer is too long.
        raise ConnectionLost(f"{server}: {error}") from error


async def _read(server: str, reader: asyncio.StreamReader, table: bool) -> list[str]:
    lines: list[str] = []
    while True:
        raw = await reader.readline()
        if not raw.endswith(b"\n"):
            raise ConnectionLost(f"{server}: the connection was closed in the middle of an answer")
        line = raw.decode(errors="replace").rstrip("\r\n")
        if not lines and line.startswith("ERR "):
            code, _, text = line.removeprefix("ERR ").partition(" ")
            raise ServerError(code, text.replace("+", " "))
        if table and line == ".":
            return lines
        lines.append(line)
        if not table:
            return lines
