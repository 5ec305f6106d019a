"""The tables in PostgreSQL and their versions.

Invariant: a database is migrated to the newest version with the numbered SQL files of `storage/postgres/sql`,
and gets the functions of that version, all in one transaction. A database of a later version is left unchanged.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Final

from hiringhall.storage.contract import StoreError
from hiringhall.storage.postgres.connecting import SCHEMA

if TYPE_CHECKING:
    from hiringhall.storage.postgres.connecting import Connection

_SQL: Final = resources.files("hiringhall.storage.postgres") / "sql"
TERMS_MAX: Final = 10_000
"""If there are more terms than this, unused ones are deleted at the start."""
_SWEEP_TERMS: Final = """
DELETE FROM terms WHERE id NOT IN (SELECT DISTINCT terms FROM jobs UNION SELECT DISTINCT terms FROM lines)
"""
_LOCK: Final = 0x48414C4C
"""The advisory lock of migrations: the letters HALL. Two halls may start at the same time."""
_DROP_FUNCTIONS: Final = f"""
DO $$
DECLARE
    function regprocedure;
BEGIN
    FOR function IN SELECT oid FROM pg_proc
        WHERE pronamespace = '{SCHEMA}'::regnamespace AND starts_with(proname, 'hall_')
    LOOP
        EXECUTE format('DROP FUNCTION %s', function);
    END LOOP;
END
$$
"""  # noqa: S608 (our own name)


def migrations() -> list[tuple[int, str]]:
    """Version and SQL of every step, in order: `001_tables.sql` creates version 1."""
    steps = [(int(file.name[:3]), file.read_text()) for file in _SQL.iterdir() if file.name[:3].isdecimal()]
    return sorted(steps)


async def find_version(connection: Connection) -> int:
    """The version of the tables; 0: there are none."""
    if await connection.fetchval("SELECT to_regclass('meta')") is None:
        return 0
    found = await connection.fetchval("SELECT value FROM meta WHERE name = 'schema_version'")
    return int(found or 0)


async def migrate(connection: Connection, place: str) -> None:
    """Create the tables, or bring them to the newest version."""
    steps = migrations()
    if await check_version(connection, place) == steps[-1][0]:
        return
    async with connection.transaction():
        await connection.execute("SET LOCAL statement_timeout = 0")
        await connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        version = await check_version(connection, place)
        if version == 0:
            await connection.execute("CREATE TABLE meta (name text PRIMARY KEY, value bigint NOT NULL)")
            await connection.execute("INSERT INTO meta (name, value) VALUES ('schema_version', 0)")
        for number, sql in steps:
            if number > version:
                await connection.execute(sql)
                await connection.execute("UPDATE meta SET value = $1 WHERE name = 'schema_version'", number)
        await connection.execute(_DROP_FUNCTIONS)
        await connection.execute((_SQL / "functions.sql").read_text())


async def make_or_check(connection: Connection, place: str) -> None:
    """Make the tables if there are none. Raises StoreError if they have not the newest version."""
    version = await check_version(connection, place)
    if version == 0:
        await migrate(connection, place)
    elif version < migrations()[-1][0]:
        raise StoreError(f"{place} is from an older version: start a hall of this version on it once")


async def sweep_terms(connection: Connection) -> None:
    """If there are very many terms, delete those that no job and no line has."""
    if await connection.fetchval("SELECT count(*) FROM terms") <= TERMS_MAX:
        return
    async with connection.transaction():
        await connection.execute("SET LOCAL statement_timeout = 0")
        await connection.execute(_SWEEP_TERMS)


async def check_version(connection: Connection, place: str) -> int:
    """The version of the tables. Raises StoreError if it is too new."""
    version, newest = await find_version(connection), migrations()[-1][0]
    if version > newest:
        raise StoreError(
            f"{place} was written by a newer hiringhall (its tables have version {version}, this one supports "
            f"up to {newest}): start that version, or restore the backup made before the upgrade"
        )
    return version
