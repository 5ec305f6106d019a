"""A hall as a process, with a native door and the web process that it starts."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Final, Self

import httpx
from hall_process import CODE, HallProcess, wait_until
from native_peer import NativePeer

from hiringhall import Hall
from stage.forking import HALL, popen

TIMEOUT_S: Final = 30.0
REQUESTED: Final = {"X-Requested-By": "tests"}
"""What the web wants of programs that change something without a token."""


class WebHall(HallProcess):
    """`hall serve` with its web. The hall has the socket, so a request waits until the web process answers."""

    def __init__(
        self,
        folder: Path,
        *,
        more: str = "",
        web: str = "127.0.0.1:0",
        door: dict[str, object] | None = None,
        environment: dict[str, str] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(
            folder,
            door={"dialect": "native", **(door or {})},
            more=f'[web]\nenabled = true\naddress = "{web}"\n{more}',
            environment={"HALL_WEB_ENABLED": "true", **(environment or {})},
            **settings,
        )

    def api(self) -> httpx.Client:
        """A client of the API."""
        return httpx.Client(base_url=f"{self.web}/api/v1", timeout=TIMEOUT_S, headers=REQUESTED)

    def browser(self) -> httpx.Client:
        """A client of everything else."""
        return httpx.Client(base_url=self.web, timeout=TIMEOUT_S)

    def sdk(self) -> Hall:
        return Hall(f"hall://{self.address}")

    def native(self) -> NativePeer:
        return NativePeer(self.port)

    def web_pid(self) -> int:
        """The process id of the web process; waits until there is one."""
        found: list[int] = []

        def find() -> bool:
            found[:] = _children(self.pid)
            return bool(found)

        wait_until(find, "the hall has a web process")
        return found[0]


def _children(pid: int) -> list[int]:
    children: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            line = stat.read_text()
        except OSError:
            continue
        state, parent = re.sub(r"^.*\) ", "", line).split()[:2]
        if int(parent) == pid and state != "Z":
            children.append(int(stat.parent.name))
    return children


class LoneWeb:
    """`hall web` for a hall elsewhere."""

    def __init__(self, folder: Path, hall_url: str, token: str = "") -> None:
        self._folder = folder
        self._token = token
        self._hall_url = hall_url
        self.url = ""

    def __enter__(self) -> Self:
        words = ("web", "--json", "--listen", "127.0.0.1:0", "--hall", self._hall_url)
        with (self._folder / "web-stderr").open("ab") as errors:
            self.process = popen(
                [*HALL, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": CODE, "HALL_TOKEN": self._token},
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self._folder / "web-stderr").read_text()
        self.url = json.loads(line)["web"]
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def api(self) -> httpx.Client:
        return httpx.Client(base_url=f"{self.url}/api/v1", timeout=TIMEOUT_S, headers=REQUESTED)
