"""Two halls with hostile names on a PostgreSQL, for the commands about halls on a database."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from hall_members import MemberProcess, await_any

from stage.postgres_server import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Callable

HALLS: Final = "halls"
DATABASE_NAME: Final = "\x1b[2J\u009b31m\x7f\r\n" + "d" * 40
"""A hostile name of a database, which may have 63 bytes."""


class DatabaseStage:
    """PostgreSQL, an active hall and a standby."""

    def __init__(self, folder: Path, name: str) -> None:
        # The user of PostgreSQL cannot enter the folders of pytest.
        self._folder = Path(tempfile.mkdtemp(prefix="hall-postgres-"))
        self._server = PostgresServer(self._folder, safe=True)
        self._numbers = itertools.count()
        self._members: list[MemberProcess] = []
        self._roles: dict[MemberProcess, str] = {}
        """What each has told since the last switch-over."""
        self._undo: list[Callable[[], object]] = [lambda: shutil.rmtree(self._folder, ignore_errors=True)]
        try:
            self._undo.append(self._server.remove)
            self._server.create()
            self._server.start()
            self._server.sql(f"CREATE DATABASE {HALLS}")
            for number in range(2):
                member = MemberProcess(folder, f"{number}{name}", self.url)
                self._members.append(member)
                self._undo.append(member.stop)
                member.start()
                self._roles[member] = "standby"
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return self._server.url(HALLS)

    def settled(self) -> str:
        """The URL, when one hall is active and the other stands by, so that the role can be switched once."""
        while sorted(self._roles.values()) != ["active", "standby"]:
            member = await_any(self._members)
            self._roles[member] = member.role()
        self._roles.clear()
        return self.url

    def empty(self) -> str:
        """The URL of a new database with a hostile name."""
        name = f"{next(self._numbers)}{DATABASE_NAME}"
        self._server.sql(f'CREATE DATABASE "{name}"')
        return self._server.url(quote(name))

    def close(self) -> None:
        for undo in reversed(self._undo):
            undo()
