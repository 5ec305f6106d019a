"""Halls on one PostgreSQL, as processes with a door of every dialect: one is active, the others stand by.

Invariant: a member keeps its ports over all restarts, and nobody takes one while its hall is dead.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))

from dwork_peer import Asker
from hall_process import CODE, Server, wait_until

from stage.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Sequence

DOORS: Final = ("gearman", "dwork", "backend", "frontend", "wmp", "hire", "native", "beanstalkd")
"""The names of the ports of a member. Those of PING/PONG are two doors of one dialect."""
START_S: Final = 60.0
ACTIVE: Final = "active"
STANDBY: Final = "standby"


class SoakMember(Server):
    """`hall serve --standby`. What it tells about its role is noted, with the time."""

    def __init__(
        self, folder: Path, name: str, url: str, *, host: str = "127.0.0.1", prefix: Sequence[str] = ()
    ) -> None:
        """`prefix`: a command that runs the hall, such as `ip netns exec`."""
        folder = folder / name
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder)
        self.name = name
        self.url = url
        self.host = host
        self.ports = {door: free_port() for door in DOORS}
        self.port = self.ports["gearman"]
        self.manager = f"127.0.0.1:{free_port()}"
        """Where a WMP manager may be whose jobs the hall takes."""
        self.roles: list[tuple[float, str]] = []
        """What it became, and when that was told."""
        self._prefix = list(prefix)
        self._told = threading.Condition()

    def door(self, name: str) -> str:
        return f"{self.host}:{self.ports[name]}"

    @property
    def role(self) -> str:
        return self.roles[-1][1] if self.roles and self.running else ""

    def start(self) -> None:
        """Start it; returns when it stands by, or is active already."""
        self.launch()
        self.wait_for(lambda: bool(self.role), "it opens")

    def launch(self) -> None:
        """Start it; waits for nothing."""
        self.stop()
        self.roles = []
        config = self.folder / "hall.toml"
        config.write_text(self._config())
        command = ["serve", "--standby", "--json", "--config", str(config)]
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [*self._prefix, sys.executable, "-m", "hiringhall", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": CODE},
            )
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def wait_for(self, holds: object, what: str, timeout_s: float = START_S) -> None:
        """Wait until something holds that changes with the role."""
        assert callable(holds)
        with self._told:
            ended = self._told.wait_for(lambda: holds() or not self.running, timeout_s)
        assert ended, f"not within {timeout_s} s: {what}\n{self.errors()[-4000:]}"
        assert self.running, f"hall {self.name} has ended\n{self.errors()[-4000:]}"

    def wait_for_role(self, role: str, timeout_s: float = START_S) -> None:
        self.wait_for(lambda: self.role == role, f"{self.name} becomes {role}", timeout_s)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                role = STANDBY if json.loads(line)["standby"] else ACTIVE
                with self._told:
                    if process is self._process:
                        self.roles.append((time.monotonic(), role))
                    self._told.notify_all()
        with self._told:
            self._told.notify_all()

    def _config(self) -> str:
        tables: list[tuple[str, dict[str, object]]] = [
            ("[hall]", {"data": self.url, "name": self.name, "folder": str(self.folder / "files")}),
            ("[history]", {"rows_max": 20_000_000}),
            ("[[door]]", {"dialect": "gearman", "address": self.door("gearman")}),
            ("[[door]]", {"dialect": "dwork", "address": self.door("dwork")}),
            (
                "[[door]]",
                {
                    "dialect": "pingpong",
                    "address": self.door("backend"),
                    "frontend": self.door("frontend"),
                    "durable": True,
                    "losses_max": 0,
                    "worker_expire_s": 1,
                    "job_timeout_s": 3,
                },
            ),
            (
                "[[door]]",
                {
                    "dialect": "wmp",
                    "address": self.door("wmp"),
                    "lease_s": 2,
                    "managers": [self.manager],
                    "roles": ["wmp"],
                    "slots": 2,
                },
            ),
            (
                "[[door]]",
                {
                    "dialect": "hire",
                    "address": self.door("hire"),
                    "window_s": 0.01,
                    "perform_s": 0.01,
                    "buffer_s": 0.5,
                    "answer_s": 0.5,
                    "pause_max_s": 0.5,
                },
            ),
            ("[[door]]", {"dialect": "native", "address": self.door("native")}),
            ("[[door]]", {"dialect": "beanstalkd", "address": self.door("beanstalkd")}),
        ]
        insecure = {} if self.host.startswith("127.") else {"insecure": True}
        lines: list[str] = []
        for name, values in tables:
            lines.append(name)
            more = insecure if name == "[[door]]" else {}
            lines += [f"{key} = {json.dumps(value)}" for key, value in {**values, **more}.items()]
        return "\n".join([*lines, ""])


class Cluster:
    """Several members. It stands for a hall where a load wants one: each question goes to any of them."""

    def __init__(self, members: Sequence[SoakMember], seed: int = 1) -> None:
        self.members = list(members)
        self._dice = random.Random(f"{seed} doors")
        self.entered: SoakMember | None = None
        """Whose doors are used; None: those of any."""
        self.manager = self.members[0].manager
        for member in self.members:
            member.manager = self.manager

    def start(self) -> None:
        """The first becomes active."""
        self.members[0].start()
        self.members[0].wait_for_role(ACTIVE)
        for member in self.members[1:]:
            member.launch()
        for member in self.members[1:]:
            member.wait_for_role(STANDBY)

    def stop(self) -> None:
        for member in self.members:
            member.stop()

    @property
    def active(self) -> SoakMember:
        """Who said last that it is active. Fails if nobody is."""
        found = [member for member in self.members if member.role == ACTIVE]
        assert found, "\n".join(f"{member.name}: {member.errors()[-2000:]}" for member in self.members)
        return max(found, key=lambda member: member.roles[-1][0])

    def wait_for_active(self, apart_from: SoakMember | None = None, timeout_s: float = START_S) -> SoakMember:
        """Wait until a member is active, apart from one that may still think so."""
        others = [member for member in self.members if member is not apart_from]
        wait_until(lambda: any(member.role == ACTIVE for member in others), "a hall is active", timeout_s)
        return next(member for member in others if member.role == ACTIVE)

    def any(self) -> SoakMember:
        return self.entered or self._dice.choice(self.members)

    # --- what a load asks of a hall

    @property
    def port(self) -> int:
        return self.any().port

    @property
    def address(self) -> str:
        return self.any().door("gearman")

    @property
    def frontend(self) -> str:
        return self.any().door("frontend")

    @property
    def backend(self) -> str:
        return self.any().door("backend")

    @property
    def wmp(self) -> str:
        return self.any().door("wmp")

    @property
    def hire(self) -> str:
        return self.any().door("hire")

    @property
    def native(self) -> int:
        return self.any().ports["native"]

    @property
    def beanstalkd(self) -> int:
        return self.any().ports["beanstalkd"]

    def asker(self, timeout_s: float = 20.0) -> Asker:
        return Asker(self.any().door("dwork"), timeout_s)

    def counts(self, function: str) -> tuple[int, int, int]:
        return self.active.counts(function)
