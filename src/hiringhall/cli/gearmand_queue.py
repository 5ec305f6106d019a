"""`hall gearmand-import`: take over the jobs of gearmand's SQLite queue.

gearmand keeps its background jobs in the table `gearman_queue` (or what `--libsqlite3-table` named), one row
for each: unique_key, function_name, priority (0 high, 1 normal, 2 low), data and when_to_run (seconds since
1970; 0: at once). It deletes a row when the job is done.

Invariant: the file is only read. Jobs are submitted with their keys, so a second import adds none that is still
there; each part is on disk in the hall before the next is sent.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, contextmanager
from pathlib import Path  # noqa: TC003 (Typer reads the annotations)
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import typer

from hiringhall.cli.progress import bar
from hiringhall.cli.remote import HallFlag, JsonFlag, connected, print_json
from hiringhall.cli.reporting import CommandError, print_line
from hiringhall.cli.wording import counted
from hiringhall.dialects.native import wire

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE: Final = "gearman_queue"
PRIORITIES: Final = ("high", "normal", "low")
PART_JOBS: Final = 1000
PART_BYTES: Final = 16 << 20
SECOND_US: Final = 1_000_000
BUSY_S: Final = 5.0

Spec = tuple[bytes, bytes, dict[str, Any], bytes, int, list[int]]


def gearmand_import(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file of gearmand's SQLite queue.")],
    table: Annotated[
        str, typer.Option("--table", metavar="NAME", help="The table, if gearmand was told another name.")
    ] = TABLE,
    retries: Annotated[
        int, typer.Option("--retries", metavar="N", min=0, help="How often a failed job is tried again.")
    ] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the jobs.")] = False,
    hall: HallFlag = None,
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="DIR", help="The data folder of a stopped hall, in place of --hall."),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Import the jobs of gearmand's SQLite queue into a running hall, or into a data folder.

    The file is not changed. Stop gearmand first: a job that it still hands out would be done twice. Function,
    unique key, data, priority and time are kept. A job whose key is live in the hall is joined, so the import
    can be repeated.
    """
    terms: dict[str, Any] = {"retries": retries} if retries else {}
    with _rows(file, table) as (total, rows):
        if dry_run:
            _report({"found": total}, f"{counted(total, 'job')} found in {file}", as_json=as_json)
            return 0
        if data is not None:
            return _import_offline(file, rows, data, terms, as_json=as_json)
        sent = 0
        with connected(hall) as remote, bar("jobs") as shown:
            for part in _parts(rows, terms, file):
                try:
                    remote.ask(wire.SUBMIT, (0, part))
                except BaseException:
                    typer.echo(f"hall: {counted(sent, 'job')} of {total} were imported before this:", err=True)
                    raise
                sent += len(part)
                shown(sent, total)
    _report({"imported": sent}, f"{counted(sent, 'job')} imported from {file}", as_json=as_json)
    return 0


def _import_offline(
    file: Path, rows: Iterator[tuple[Any, ...]], data: str, terms: dict[str, Any], *, as_json: bool
) -> int:
    # Imported here: a running hall needs nothing of the server.
    from hiringhall.cli.gearman_import import Tally  # noqa: PLC0415
    from hiringhall.cli.settings import load_settings  # noqa: PLC0415
    from hiringhall.cli.transfer import ignoring_sighup, import_offline  # noqa: PLC0415
    from hiringhall.core.jobs import JobSpec  # noqa: PLC0415
    from hiringhall.core.terms import Terms  # noqa: PLC0415
    from hiringhall.records.joblines import WrittenJob  # noqa: PLC0415

    kinds = [
        Terms(priority=level, durable=True, detached=True, failures_max=terms.get("retries", 0))
        for level in range(len(PRIORITIES))
    ]
    now_us = time.time_ns() // 1000
    jobs: list[WrittenJob] = []
    for part in _parts(rows, terms, file):
        for queue, payload, stated, key, delay_us, _ in part:
            kind = kinds[PRIORITIES.index(stated.get("priority", "normal"))]
            spec = JobSpec(queue, payload, key, kind, now_us + delay_us if delay_us else 0)
            jobs.append(WrittenJob(len(jobs) + 1, None, spec))
    with ignoring_sighup():
        return import_offline(file, jobs, load_settings(None, data).config, Tally(), as_json=as_json)


@contextmanager
def _rows(file: Path, table: str) -> Iterator[tuple[int, Iterator[tuple[Any, ...]]]]:
    """How many rows there are, and the rows in the order in which gearmand would hand them out."""
    if not file.is_file():
        raise CommandError(f"there is no file {file}")
    name = '"' + table.replace('"', '""') + '"'
    address = f"file:{quote(bytes(file.absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=BUSY_S)) as connection:
            connection.text_factory = bytes
            (total,) = connection.execute(f"SELECT COUNT(*) FROM {name}").fetchone()  # noqa: S608 (quoted above)
            columns = "unique_key, function_name, priority, data, when_to_run"
            yield total, connection.execute(f"SELECT {columns} FROM {name} ORDER BY priority, rowid")  # noqa: S608
    except sqlite3.DatabaseError as error:
        raise CommandError(
            f"{file} cannot be read as a queue of gearmand: {error}; see --table if its table has another name"
        ) from error


def _parts(rows: Iterator[tuple[Any, ...]], terms: dict[str, Any], file: Path) -> Iterator[list[Spec]]:
    """Jobs in frames of bounded size."""
    part: list[Spec] = []
    size = 0
    now_s = time.time()
    for number, row in enumerate(rows, 1):
        spec = _spec(row, terms, now_s)
        if spec is None:
            raise CommandError(
                f"{file}: row {number} is not a job of gearmand: it has no function or no number"
            )
        part.append(spec)
        size += len(spec[1])
        if len(part) >= PART_JOBS or size >= PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _spec(row: tuple[Any, ...], terms: dict[str, Any], now_s: float) -> Spec | None:
    key, function, priority, data, when_s = row
    numbers = [0 if value is None else value for value in (priority, when_s)]
    if not isinstance(function, bytes) or not function or not all(isinstance(each, int) for each in numbers):
        return None
    level, due_s = numbers
    word = PRIORITIES[level] if 0 <= level < len(PRIORITIES) else "normal"
    stated = terms if word == "normal" else {**terms, "priority": word}
    delay_us = max(0, round((due_s - now_s) * SECOND_US)) if due_s else 0
    payload = data if isinstance(data, bytes) else b""
    return function, payload, stated, key if isinstance(key, bytes) else b"", delay_us, []


def _report(facts: dict[str, int], words: str, *, as_json: bool) -> None:
    if as_json:
        print_json([facts])
    else:
        print_line(words)
