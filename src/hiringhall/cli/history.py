"""`hall history`: ended and unfinished jobs, as a table, as JSON, or in a file."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from hiringhall.cli.help_texts import completing
from hiringhall.cli.layout import terminal_width
from hiringhall.cli.paging import show
from hiringhall.cli.progress import with_progress
from hiringhall.cli.rendering import detail_lines, table_lines
from hiringhall.cli.reporting import FAILURE, print_error, print_line
from hiringhall.cli.settings import ConfigFlag, DataFlag, load_settings
from hiringhall.cli.styling import terminal_colours
from hiringhall.cli.times import TIMES, read_time
from hiringhall.config.sources import ConfigError
from hiringhall.core import ids
from hiringhall.endpoints import HallError
from hiringhall.records import FORMATS, STATES, History, MissingFormat, save_records, write_records
from hiringhall.records.history import job_id_of
from hiringhall.storage.opening import has_history, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiringhall.config.schema import HallSettings
    from hiringhall.records import Record

LIMIT: Final = 50
"""Records that are shown without --limit. A file gets all of them."""
LIMIT_MAX: Final = 1_000_000_000
OTHER_FOLDERS: Final = (".hall-dev", ".hall-run/data")
"""Where `hall dev` and `hall run` keep their data, in the folder in which they are called."""
DASH: Final = Path("-")
"""In place of a file name: stdin to read from, stdout to write to."""


class Wanted(NamedTuple):
    """What was asked for, checked."""

    id: int | None
    key: str | None
    queue: str | None
    state: str | None
    since: datetime | None
    until: datetime | None
    before: int | None
    limit: int | None

    def find(self, history: History, *, output: bool = True) -> Iterator[Record]:
        """Finds one record more than the limit, to know whether there are more."""
        return history.find(
            id=self.id,
            key=self.key,
            queue=self.queue,
            state=self.state,
            since=self.since,
            until=self.until,
            before_id=self.before,
            limit=None if self.limit is None else self.limit + 1,
            output=output,
        )


class Limited:
    """At most `limit` records. Afterwards `last` is the last of them, `more` says whether there are more."""

    def __init__(self, records: Iterator[Record], limit: int | None) -> None:
        self._records = records
        self._limit = limit
        self.last: Record | None = None
        self.more = False

    def __iter__(self) -> Iterator[Record]:
        for count, record in enumerate(self._records):
            if count == self._limit:
                self.more = True
                return
            self.last = record
            yield record


def history(
    config: ConfigFlag = None,
    data: DataFlag = None,
    job_id: Annotated[
        int | None,
        typer.Option("--id", metavar="ID", help="Show this job in full, with its output, ended or not."),
    ] = None,
    handle: Annotated[
        str | None,
        typer.Option(
            "--handle", metavar="HANDLE", help="Show this job in full, by the handle that its client got."
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Only jobs with this key (unique id).")
    ] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="NAME", help="Only jobs of this queue (function).")
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="STATE",
            autocompletion=completing(STATES),
            help=f"Only jobs in this state: {', '.join(STATES)}.",
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help=f"Only jobs since this time: {TIMES}.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="TIME", help="Only jobs until this time. A date means the end of that day."
        ),
    ] = None,
    before: Annotated[
        int | None,
        typer.Option("--before", metavar="ID", help="Only jobs older than this one, to get the next page."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            metavar="N",
            min=1,
            max=LIMIT_MAX,
            help=f"At most this many, newest first. Default: {LIMIT}, or all with --output.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line, with complete results.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help="Write to this .jsonl, .csv or .parquet file; - is stdout."
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            autocompletion=completing(FORMATS),
            help=f"With --output: the file format, one of {', '.join(FORMATS)}.",
        ),
    ] = None,
    no_pager: Annotated[bool, typer.Option("--no-pager", help="Do not use a pager.")] = False,
    hall_url: Annotated[
        str | None,
        typer.Option("--hall", metavar="URL", help="Ask this hall instead of reading a data folder."),
    ] = None,
) -> int:
    """Show ended jobs, newest first; with --state failed, the dead letters.

    With --id, --handle, --key or --state it finds unfinished jobs too. The hall can be running or stopped; with
    --hall it must run, may be on another machine, and only ended jobs are listed.
    """
    wanted = _wanted(job_id, handle, key, queue, state, since, until, before, limit, bounded=output is None)
    chosen = _format(output, form, as_json=as_json)
    if hall_url is not None:
        if output is not None or data is not None:
            raise ConfigError(["--hall: cannot be used with --output or --data, which are about a data folder"])
        from hiringhall.cli.asked_history import show_asked  # noqa: PLC0415 (the only part that asks a hall)

        return show_asked(wanted, hall_url, as_json=as_json, paged=not no_pager)
    hall = load_settings(config, data).config.hall
    place = shown(hall.data)
    with open_folder(hall) as found:
        if output is not None:
            return _save(found, wanted, output, chosen)
        if as_json:
            return _write_json(found, wanted, place)
        if wanted.id is not None:
            return _show_one(found, wanted, place, paged=not no_pager)
        return _show_table(found, wanted, paged=not no_pager)


def open_folder(hall: HallSettings) -> History:
    """The history of the data folder. Raises HallError if there is none."""
    in_memory = hall.storage == "memory"
    if not has_history(hall.data):
        why = "hall.storage is memory" if in_memory else "use --data to name the hall's data folder"
        if other := next(filter(has_history, OTHER_FOLDERS), None):
            why = f"there is one in {other}: use --data {other}"
        raise HallError(f"there is no history in {shown(hall.data)}; {why}")
    if in_memory:
        print_error(f"hall: hall.storage is memory: this history in {shown(hall.data)} is from an earlier hall")
    return History(hall.data)


def _save(history: History, wanted: Wanted, output: Path, form: str) -> int:
    total = sum(history.count())
    if wanted.limit is not None:
        total = min(total, wanted.limit)
    records = with_progress(Limited(wanted.find(history), wanted.limit), "records", total)
    try:
        if output == DASH:
            write_records(records, sys.stdout.buffer, form)
        else:
            print_line(f"{_save_file(records, output, form)} records written to {output}")
    except MissingFormat as error:
        raise HallError(str(error)) from error
    return 0


def _save_file(records: Iterator[Record], output: Path, form: str) -> int:
    try:
        return save_records(records, output, form)
    except OSError as error:
        raise HallError(f"{output} cannot be written: {error.strerror or error}") from error


def _write_json(history: History, wanted: Wanted, place: str) -> int:
    records = Limited(wanted.find(history), wanted.limit)
    write_records(records, sys.stdout.buffer, "jsonl")
    if wanted.id is not None and records.last is None:
        return _miss(wanted, place)
    if records.more:
        print_error(f"hall: {_footer(records, wanted)}")
    return 0


def _miss(wanted: Wanted, place: str) -> int:
    print_error(f"hall: there is no job {wanted.id} in {place}: it is neither unfinished nor in the history")
    return FAILURE


def _show_one(history: History, wanted: Wanted, place: str, *, paged: bool) -> int:
    record = next(wanted.find(history), None)
    if record is None:
        return _miss(wanted, place)
    show(detail_lines(record, terminal_colours()), paged=paged)
    return 0


def _show_table(history: History, wanted: Wanted, *, paged: bool) -> int:
    records = Limited(wanted.find(history, output=False), wanted.limit)
    show(_table_and_footer(records, wanted, terminal_width()), paged=paged)
    return 0


def _table_and_footer(records: Limited, wanted: Wanted, width: int | None) -> Iterator[str]:
    yield from table_lines(records, width, terminal_colours())
    if records.last is None:
        yield "No jobs found."
    elif records.more:
        footer = _footer(records, wanted)
        if sys.stdout.isatty():
            yield footer  # A pager would hide it on stderr.
        else:
            print_error(f"hall: {footer}")


def _footer(records: Limited, wanted: Wanted) -> str:
    """How to get the next page."""
    assert records.last is not None
    which = f"the newest {wanted.limit}" + (f" before {wanted.before}" if wanted.before is not None else "")
    return f"there are more jobs; these are {which} (see --limit); next page: --before {records.last.id}"


def _wanted(
    job_id: int | None,
    handle: str | None,
    key: str | None,
    queue: str | None,
    state: str | None,
    since: str | None,
    until: str | None,
    before: int | None,
    limit: int | None,
    *,
    bounded: bool,
) -> Wanted:
    problems: list[str] = []
    if handle is not None:
        try:
            named = job_id_of(handle)
        except ValueError as error:
            problems.append(f"--handle: {error}")
        else:
            if job_id not in {None, named}:
                problems.append(f"--handle: it names job {named}, but --id names another; use only one of them")
            job_id = named
    for option, number in (("--id", job_id), ("--before", before)):
        if number is not None and not ids.in_bounds(number):
            problems.append(f"{option}: {number} is not a valid job id; ids are from 1 to {ids.MAX}")
    if state is not None and state not in STATES:
        problems.append(f'--state: "{state}" is not allowed; it takes one of {", ".join(STATES)}')
    now = datetime.now(UTC)
    since_at = read_time("--since", since, problems, now=now)
    until_at = read_time("--until", until, problems, ends=True, now=now)
    if since_at is not None and until_at is not None and since_at > until_at:
        problems.append("--since: is later than --until; swap them")
    if problems:
        raise ConfigError(problems)
    if limit is None and bounded:
        limit = LIMIT
    return Wanted(job_id, key, queue, state, since_at, until_at, before, limit)


def _format(output: Path | None, form: str | None, *, as_json: bool) -> str:
    formats = ", ".join(FORMATS)
    if output is None:
        if form is not None:
            raise ConfigError(["--format: needs --output; --output - writes to stdout"])
        return "jsonl"
    if as_json:
        raise ConfigError(
            ["--json: cannot be used with --output; for JSON in a file use a name that ends with .jsonl"]
        )
    chosen = output.suffix.removeprefix(".").lower() if form is None else form
    if chosen == "parquet" and output == DASH and sys.stdout.isatty():
        raise ConfigError(["--format: parquet cannot be written to a terminal; name a file with --output"])
    if chosen in FORMATS:
        return chosen
    if form is not None:
        raise ConfigError([f'--format: "{form}" is not allowed; it takes one of {formats}'])
    raise ConfigError([f"--output: {output} has no known suffix; add --format with one of {formats}"])
