"""Networks of a test's own: a namespace for each member and one for PostgreSQL, joined by a switch.

Invariant: each direction between two hosts is cut by itself. What is sent in a direction that is cut goes to a
hardware address that nobody has, so it is lost without a word, as in a network that is broken somewhere on the
way. No host asks for hardware addresses, so a cut holds from the next packet. Everything ends with the
namespaces, which are deleted at the end, also if the run failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from stage.ports import claim

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

OUTSIDE: Final = "outside"
"""Where the clients are, and the test itself: the namespace of the process."""
NOWHERE: Final = "02:00:00:00:00:ff"
"""The hardware address of nobody."""
_PORT: Final = "eth0"
_SUBNETS: Final = range(64, 128)
"""Of 10.213.N.0/24."""


class Networks:
    """Hosts that all see each other until they are cut off. Opened with `with`."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._run = f"hall{os.getpid()}"
        """In the names of everything that is made."""
        self._subnet = claim("subnets", _SUBNETS)
        self._cut: set[tuple[str, str]] = set()

    def prefix(self, name: str) -> list[str]:
        """The words before a command that is to run on this host."""
        return ["ip", "netns", "exec", self._space(name)]

    def address(self, name: str) -> str:
        return f"10.213.{self._subnet}.{self._number(name)}"

    def cut(self, sender: str, receiver: str) -> None:
        """Nothing that one host sends to the other arrives any more. The other direction is not touched."""
        self._cut.add((sender, receiver))
        self._teach(sender, receiver, NOWHERE)

    def cut_off(self, one: str, others: Iterable[str]) -> None:
        """In both directions."""
        for other in others:
            self.cut(one, other)
            self.cut(other, one)

    def heal(self) -> None:
        """Everybody sees everybody again."""
        for sender, receiver in self._cut:
            self._teach(sender, receiver, self._hardware(receiver))
        self._cut.clear()

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _make(self) -> None:
        switch = self._space("switch")
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for name in (OUTSIDE, *self._names):
            if name != OUTSIDE:
                _ip("netns", "add", self._space(name))
                _ip(*self._in(name), "link", "set", "lo", "up")
            port = self._port(name)
            space = str(os.getpid()) if name == OUTSIDE else self._space(name)
            _ip("-n", switch, "link", "add", name, "type", "veth", "peer", "name", port, "netns", space)
            _ip(*self._in(name), "link", "set", port, "address", self._hardware(name))
            _ip(*self._in(name), "address", "add", f"{self.address(name)}/24", "dev", port)
            _ip(*self._in(name), "link", "set", port, "up")
            _ip("-n", switch, "link", "set", name, "master", "bridge", "up")
        for sender in (OUTSIDE, *self._names):
            for receiver in (OUTSIDE, *self._names):
                if sender != receiver:
                    self._teach(sender, receiver, self._hardware(receiver))

    def _remove(self) -> None:
        """Interfaces and the switch end with their namespaces."""
        for name in (*self._names, "switch"):
            subprocess.run(["ip", "netns", "delete", self._space(name)], check=False, capture_output=True)

    def _teach(self, sender: str, receiver: str, hardware: str) -> None:
        """From now on the sender sends what is for the receiver to this hardware address."""
        words = ["replace", self.address(receiver), "lladdr", hardware, "nud", "permanent"]
        _ip(*self._in(sender), "neighbour", *words, "dev", self._port(sender))

    def _space(self, name: str) -> str:
        return f"{self._run}-{name}"

    def _port(self, name: str) -> str:
        return self._run if name == OUTSIDE else _PORT

    def _in(self, name: str) -> list[str]:
        return [] if name == OUTSIDE else ["-n", self._space(name)]

    def _number(self, name: str) -> int:
        return 1 if name == OUTSIDE else 2 + self._names.index(name)

    def _hardware(self, name: str) -> str:
        return f"02:00:00:00:{self._subnet:02x}:{self._number(name):02x}"


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
    return done.stdout
