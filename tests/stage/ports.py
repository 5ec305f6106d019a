"""Ports for servers of tests, and other numbers that several runs on one machine must not share.

Invariant: a port that was given out here belongs to this process until it ends, whether or not a server listens
on it. So a server that is dead finds it free when it starts again. Two things could take it: another run that
chooses a port, so each run claims a block of ports; and the system, for a connection, so the blocks are below
the ports that it gives to connections.
"""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from itertools import cycle
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PORTS: Final = range(12_000, 32_000)
BLOCK: Final = 200
"""Ports of one run. It uses them again after the last one, if nobody listens there."""

_ports: Iterator[int] = iter(())


def free_port() -> int:
    """A port of this process on which nobody listens."""
    global _ports  # noqa: PLW0603 (a block is claimed when the first port is needed)
    while True:
        port = next(_ports, 0)
        if not port:
            first = claim("ports", PORTS[::BLOCK])
            _ports = cycle(range(first, first + BLOCK))
            continue
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def claim(kind: str, numbers: Sequence[int]) -> int:
    """One of the numbers, which no other process on this machine has, until this one ends."""
    for number in random.sample(numbers, len(numbers)):
        claimed = socket.socket(socket.AF_UNIX)
        try:
            claimed.bind(f"\0hiringhall tests {kind} {number}")  # a name without a file
        except OSError:
            claimed.close()
            continue
        claimed.detach()  # it stays open until the process ends
        return number
    raise AssertionError(f"other runs have all {kind}")
