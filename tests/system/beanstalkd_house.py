"""A real hall with a beanstalkd door and a Gearman door, and beanstalkd to compare it with."""

from __future__ import annotations

import json
import socket
import subprocess
from typing import TYPE_CHECKING

from hall_process import START_S, HallProcess, Server, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class BeanstalkdHall(HallProcess):
    """`hall serve` with two doors, whose addresses stay over a restart. `address` is the Gearman door's."""

    def __init__(self, folder: Path, **settings: object) -> None:
        """Settings of the beanstalkd door."""
        super().__init__(folder)
        self._settings: Mapping[str, object] = settings
        self.beanstalkd = ("127.0.0.1", 0)

    def start(self) -> None:
        settings = {"dialect": "beanstalkd", "address": "{}:{}".format(*self.beanstalkd), **self._settings}
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        self._more = "\n".join(["[[door]]", *lines, ""])
        super().start()

    def _first_line(self) -> bytes:
        line = super()._first_line()
        (address,) = [door["address"] for door in json.loads(line)["doors"] if door["dialect"] == "beanstalkd"]
        host, _, port = address.rpartition(":")
        self.beanstalkd = (host, int(port))
        return line


class Beanstalkd(Server):
    """Debian's beanstalkd."""

    def start(self) -> None:
        self.stop()
        self.port = self.port or free_port()
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                ["beanstalkd", "-l", "127.0.0.1", "-p", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                cwd=self.folder,
            )
        wait_until(self._listens, "beanstalkd listens", START_S)

    @property
    def beanstalkd(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    def _listens(self) -> bool:
        assert self.running, f"beanstalkd ended at once:\n{self.errors()}"
        try:
            socket.create_connection(self.beanstalkd, 1).close()
        except OSError:
            return False
        return True
