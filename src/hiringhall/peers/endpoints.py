"""Addresses of ZeroMQ peers, as people write them."""

from __future__ import annotations

import re
from typing import Final

_HOST_PORT: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+|\*):([0-9]{1,5}|\*)")


def zmq_endpoint(address: str) -> str:
    """An address in ZeroMQ's form: `HOST:PORT` means TCP. Raises ValueError."""
    scheme, separator, rest = address.strip().rpartition("://")
    if separator and scheme in ("ipc", "inproc") and rest:
        return f"{scheme}://{rest}"
    match = _HOST_PORT.fullmatch(rest)
    if scheme not in ("", "tcp") or match is None or (match[2] != "*" and int(match[2]) > 65535):
        text = f"{address!r} is not an address: write HOST:PORT, such as 127.0.0.1:5555, or ipc://PATH"
        raise ValueError(text)
    return f"tcp://{rest}"
