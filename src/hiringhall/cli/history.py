"""`hall history`: what became of durable jobs, as a table for people or as lines of JSON for programs."""

from __future__ import annotations

import base64
import json
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hiringhall.cli.reporting import complain, say
from hiringhall.config.sources import ConfigError
from hiringhall.core.jobs import CANCELLED, DONE, FAILED, STATE_NAMES
from hiringhall.server import DATABASE, HallError
from hiringhall.storage.contract import HistoryQuery
from hiringhall.storage.sqlite import open_history

if TYPE_CHECKING:
    from pathlib import Path

    from hiringhall.core.changes import EndRow

STATES: Final = {STATE_NAMES[state]: state for state in (DONE, FAILED, CANCELLED)}
_RESULT_SHOWN: Final = 60
_STYLES: Final = {"done": "green", "failed": "red", "cancelled": "yellow"}


def show_history(
    folder: Path, *, state: str | None, queue: str | None, key: str | None, limit: int, as_json: bool
) -> int:
    """Print the lines of history that match, newest first."""
    if state is not None and state not in STATES:
        raise ConfigError([f'--state: "{state}" is not allowed; it takes one of {", ".join(STATES)}'])
    path = folder / DATABASE
    if not path.exists():
        raise HallError(f"there is no history in {folder}; name the hall's data folder with --data")
    query = HistoryQuery(
        queue=None if queue is None else queue.encode(errors="surrogateescape"),
        key=None if key is None else key.encode(errors="surrogateescape"),
        state=None if state is None else STATES[state],
        limit=limit,
    )
    store = open_history(path)
    try:
        rows = store.history(query)
    finally:
        store.close()
    if as_json:
        say("".join(json.dumps(_as_json(row)) + "\n" for row in rows))
    else:
        say(_as_table(rows))
        if len(rows) == limit:
            complain(f"hall: there may be more; these are the newest {limit} (see --limit)")
    return 0


def _as_json(row: EndRow) -> dict[str, object]:
    """Bytes become text; those that are not UTF-8 go to a field of their own, in base64."""
    line: dict[str, object] = {"id": row.id, "state": STATE_NAMES[row.state], "code": row.code}
    for name, data in (
        ("queue", row.queue),
        ("key", row.key),
        ("worker", row.worker),
        ("result", row.result),
        ("payload", row.payload),
    ):
        try:
            line[name] = data.decode()
        except UnicodeDecodeError:
            line[f"{name}_base64"] = base64.b64encode(data).decode()
    for name, at_us in (("created", row.created_us), ("started", row.started_us), ("ended", row.ended_us)):
        line[name] = _moment(at_us).isoformat() if at_us else None
    line["attempts"] = row.attempts
    line["losses"] = row.losses
    return line


def _as_table(rows: list[EndRow]) -> str:
    if not rows:
        return "No such jobs.\n"
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("ended", "state", "queue", "key", "code", "tries", "worker", "result"):
        table.add_column(heading, no_wrap=True, justify="right" if heading in ("code", "tries") else "left")
    for row in rows:
        name = STATE_NAMES[row.state]
        table.add_row(
            f"{_moment(row.ended_us).astimezone():%Y-%m-%d %H:%M:%S}",
            Text(name, style=_STYLES[name]),
            Text(_shown(row.queue)),
            Text(_shown(row.key)),
            str(row.code),
            str(row.attempts),
            Text(_shown(row.worker)),
            Text(_shown(row.result)),
        )
    console = Console(highlight=False, width=max(shutil.get_terminal_size((160, 24)).columns, 100))
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def _moment(at_us: int) -> datetime:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC)


def _shown(data: bytes) -> str:
    """Bytes on one short line, harmless to a terminal."""
    text = data[: _RESULT_SHOWN * 4].decode(errors="backslashreplace")
    text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return text if len(text) <= _RESULT_SHOWN else text[: _RESULT_SHOWN - 1] + "…"
