"""Where a hall of a test keeps its data: a folder, or a database of its own on a PostgreSQL of the run.

With TEST_DATA=postgres the data of halls that a test starts are in PostgreSQL; their other files stay in
the folder. Each folder has one database, so a hall that is started again finds what it kept.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from hiringhall.storage.postgres.connecting import Database
from hiringhall.storage.postgres.schema import migrate
from stage.postgres_server import PostgresServer

ON_POSTGRES: Final = os.environ.get("TEST_DATA") == "postgres"
"""Halls of tests keep their data in PostgreSQL."""

_STARTED: list[PostgresServer] = []


def place_of(folder: Path) -> str:
    """What `hall.data` is for a hall with this folder."""
    return postgres_url(folder) if ON_POSTGRES else str(folder)


def stop_postgres() -> None:
    """End the server of this run, if there is one."""
    while _STARTED:
        server = _STARTED.pop()
        server.remove()
        shutil.rmtree(server.folder.parent, ignore_errors=True)


@cache
def postgres_server() -> PostgresServer:
    """One server for all tests of a process. It does not sync: no test may let it crash."""
    folder = Path(tempfile.mkdtemp(prefix="hall-postgres-"))
    server = PostgresServer(folder)
    server.create()
    server.start()
    _STARTED.append(server)
    server.sql("CREATE DATABASE empty_hall")
    database = Database(server.url("empty_hall"), "test")
    database.run(_make_tables(database))
    database.close()
    return server


async def _make_tables(database: Database) -> None:
    await migrate(await database.connect(), database.place)


@cache
def postgres_url(folder: Path) -> str:
    """The database of a folder: made at its first use, from one that has the tables."""
    name = "hall_" + hashlib.sha256(str(folder).encode()).hexdigest()[:24]
    server = postgres_server()
    server.sql(f"CREATE DATABASE {name} TEMPLATE empty_hall")
    return server.url(name)
