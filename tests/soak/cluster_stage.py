"""What a fault run stands on: a PostgreSQL of its own, the halls, a folder, dice, and words about progress."""

from __future__ import annotations

import copy
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from cluster_members import Cluster, SoakMember

from stage.postgres_server import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from cluster_netns import Networks

DATABASE = "soak"
NAMES = ("ann", "bob", "eve")


def shares(rounds: int, count: int) -> list[int]:
    """So many rounds, shared out."""
    return [rounds // count + (number < rounds % count) for number in range(count)]


class Stage:
    """One scenario: opened with `with`, and everything ends with it."""

    def __init__(
        self,
        name: str,
        seed: int,
        *,
        quiet: bool = False,
        safe: bool = False,
        networks: Networks | None = None,
        **settings: str,
    ) -> None:
        """`networks`: with hosts called as the halls, and one called as the database."""
        self.name = name
        self.seed = seed
        self.dice = random.Random(f"{seed} {name}")
        self.database = DATABASE
        self.folder = Path(tempfile.mkdtemp(prefix=f"hall-{name}-"))
        self.networks = networks
        settings = {"shared_buffers": "256MB", **settings}
        folder = self.folder / "postgres"
        if networks is None:
            self.server = PostgresServer(folder, safe=safe, **settings)
        else:
            host, prefix = networks.address(DATABASE), networks.prefix(DATABASE)
            self.server = PostgresServer(folder, safe=safe, host=host, prefix=prefix, **settings)
        self.seconds_max = float("inf")
        self.kept = False
        """The logs stay for somebody to read."""
        self._quiet = quiet
        self._clusters: list[Cluster] = []
        self._begun_s = time.monotonic()

    @property
    def url(self) -> str:
        return self.server.url(self.database)

    def beside(self, number: int) -> Stage:
        """The same server, with a database, halls and dice of their own: for rounds at the same time, where a
        round is mostly waiting.
        """
        other = copy.copy(self)
        other.dice = random.Random(f"{self.seed} {self.name} {number}")
        other.database = f"{DATABASE}_{number}"
        self.server.sql(f"CREATE DATABASE {other.database}")
        return other

    def cluster(self, url: str = "", names: tuple[str, ...] = NAMES) -> Cluster:
        """Halls that are not started yet."""
        made = Cluster([self._member(name, url or self.url) for name in names], self.seed)
        self._clusters.append(made)
        return made

    def _member(self, name: str, url: str) -> SoakMember:
        folder = self.folder / "halls" / self.database
        if self.networks is None:
            return SoakMember(folder, name, url)
        host, prefix = self.networks.address(name), self.networks.prefix(name)
        return SoakMember(folder, name, url, host=host, prefix=prefix)

    def say(self, text: str) -> None:
        if not self._quiet:
            sys.stderr.write(f"{self.name} {self.database} {time.monotonic() - self._begun_s:7.1f} s: {text}\n")
            sys.stderr.flush()

    def rounds(self, count: int) -> Iterator[int]:
        """So many numbers, or fewer if the time for the scenario is over."""
        for number in range(count):
            if time.monotonic() - self._begun_s > self.seconds_max:
                self.say(f"the time is over after {number} of {count} rounds")
                return
            yield number

    def step(self, number: int, rounds: int, text: str) -> None:
        self.say(f"{number + 1}/{rounds} {text}")

    def sql(self, statement: str) -> str:
        return self.server.sql(f"SET search_path = hiringhall; {statement}", self.database)

    def __enter__(self) -> Self:
        self.server.create()
        self.server.start()
        self.server.sql(f"CREATE DATABASE {DATABASE}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for cluster in self._clusters:
            cluster.stop()
        self.server.remove()
        if error is not None:
            self.kept = True
        if not self.kept:
            shutil.rmtree(self.folder, ignore_errors=True)
