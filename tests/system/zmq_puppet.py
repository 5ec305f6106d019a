"""A process with a socket of the system's libzmq, to be moved and killed by a test: `clients/zmq_puppet.c`."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from foreign import PROGRAMS, Program

if TYPE_CHECKING:
    from pathlib import Path


class Puppet(Program):
    """One socket."""

    def __init__(self, folder: Path, kind: str, address: str, identity: str = "") -> None:
        program = folder / "zmq_puppet"
        if not program.exists():
            source = PROGRAMS / "zmq_puppet.c"
            subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-o", program, source, "-lzmq"], check=True)
        command = [str(program), kind, f"tcp://{address}", *([identity] if identity else [])]
        super().__init__(command, folder, answers_only=True)
        assert self.line() == "ready"

    def send(self, *frames: bytes) -> None:
        self.say(*(frame.hex() or "." for frame in frames))

    def receive(self, timeout_s: float = 20.0) -> list[bytes]:
        return [b"" if word == "." else bytes.fromhex(word) for word in self.line(timeout_s).split()]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
