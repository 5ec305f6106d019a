"""`hall history --hall`: the history as a running hall tells it, for people without its data folder."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from hiringhall.cli.filters import ended_filters
from hiringhall.cli.grid import Cell, Column, Row, plain, table
from hiringhall.cli.job import show_job
from hiringhall.cli.jobs import shapes
from hiringhall.cli.layout import terminal_width
from hiringhall.cli.paging import show
from hiringhall.cli.remote import connected, print_json
from hiringhall.cli.reporting import WRONG_USE, CommandError, print_error
from hiringhall.cli.styling import terminal_colours
from hiringhall.cli.wording import moment, short, style_of
from hiringhall.dialects.native import wire

if TYPE_CHECKING:
    from hiringhall.cli.history import Wanted

ENDS: Final = ("done", "failed", "cancelled")
COLUMNS: Final = (
    Column("id"),
    Column("ended"),
    Column("state"),
    Column("queue", least=8),
    Column("key", least=8),
    Column("code", right=True, rank=1),
    Column("tries", right=True, rank=2),
    Column("worker", least=6, rank=3),
    Column("result", least=12),
)


def show_asked(wanted: Wanted, url: str, *, as_json: bool, paged: bool) -> int:
    """Print the ended jobs that are wanted, or one job in full."""
    if wanted.state is not None and wanted.state not in ENDS:
        raise CommandError("--state: with --hall it takes done, failed or cancelled; see hall jobs", WRONG_USE)
    if wanted.id is not None:
        with connected(url) as remote:
            return show_job(remote, wanted.id, as_json=as_json, paged=paged, full=True)
    filters = ended_filters(wanted.queue, wanted.key, wanted.state, wanted.since, wanted.until)
    if wanted.before is not None:
        filters["before"] = wanted.before
    limit = wanted.limit or wire.LIST_MAX
    with connected(url) as remote:
        found = remote.pages(wire.HISTORY, filters, "before", limit + 1)
        listed = list(islice(found, limit))
        more = next(found, None) is not None
    if as_json:
        print_json(shapes(listed))
    elif listed:
        show(table(COLUMNS, list(map(_row, listed)), terminal_width(), terminal_colours()), paged=paged)
    else:
        print_error("hall: no jobs found")
    if more:
        print_error(f"hall: there are more jobs (see --limit); next page: --before {listed[-1]['id']}")
    return 0


def _row(described: dict[str, Any]) -> Row:
    state = str(described["state"])
    number, ended, *rest = plain(
        described["id"],
        moment(described["ended_us"]),
        short(described["queue"]),
        short(described["key"]),
        described["code"],
        described["attempts"],
        short(described["worker"]),
        short(described["result"]),
    )
    return [number, ended, Cell(state, style_of(state)), *rest]
