"""`hall migrate`: everything of a stopped hall from a data folder to PostgreSQL, or back.

Invariant: the source is not changed. A target that is not empty is refused, so nothing is mixed or replaced.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Annotated, Final

import typer

from hiringhall.access.audit_log import FILE as AUDIT
from hiringhall.access.tokens import FILE as TOKENS
from hiringhall.cli.progress import bar
from hiringhall.cli.reporting import WRONG_USE, CommandError, json_line, print_error, print_line, print_result
from hiringhall.schedules.book import FILE as SCHEDULES
from hiringhall.schedules.pauses import FILE as PAUSES
from hiringhall.storage.documents import DocumentError
from hiringhall.storage.opening import has_history, move_all, open_documents, shown

DOCUMENTS: Final = (SCHEDULES, PAUSES, TOKENS)
DOCUMENT_BYTES_MAX: Final = 64 << 20
AUDIT_LINES_MAX: Final = 200_000
LINES_AT_ONCE: Final = 1000
PlaceHelp: Final = "A data folder, or the URL of a PostgreSQL database."

JsonFlag = Annotated[bool, typer.Option("--json", help="Print what was done as one line of JSON.")]


def migrate(
    source: Annotated[str, typer.Option("--from", metavar="PLACE", help=PlaceHelp)],
    target: Annotated[str, typer.Option("--to", metavar="PLACE", help=f"{PlaceHelp} It must be empty.")],
    as_json: JsonFlag = False,
) -> int:
    """Move a stopped hall from a data folder to PostgreSQL, or back.

    Jobs, history, output, flows, pauses, schedules, tokens and the audit log are moved, and job ids stay the
    same. The source is left as it is: remove it yourself when the hall runs on the target.
    """
    if source == target:
        raise CommandError("--from and --to are the same place", WRONG_USE)
    if not has_history(source):
        raise CommandError(f"there is no hall in {shown(source)}; give its data folder or its URL")
    with bar("moving") as shown_bar:
        moved = move_all(source, target, lambda text: print_error(f"hall: {text}"), shown_bar)
    try:
        documents = _copy_documents(source, target)
    except DocumentError as error:
        raise CommandError(f"the jobs were moved, but not the schedules and tokens: {error}") from error
    if as_json:
        facts = {"jobs": moved.jobs, "history": moved.lines, "documents": documents, "to": shown(target)}
        print_result(json_line(facts))
        return 0
    also = f", {', '.join(documents)}" if documents else ""
    words = f"{moved.jobs:,} unfinished and {moved.lines:,} ended jobs{also}"
    print_line(f"{words} moved from {shown(source)} to {shown(target)}")
    return 0


def _copy_documents(source: str, target: str) -> list[str]:
    """Copy schedules, tokens and the audit log, unless the target has them."""
    copied: list[str] = []
    with closing(open_documents(source)) as old, closing(open_documents(target)) as new:
        for name in DOCUMENTS:
            content = old.read(name, DOCUMENT_BYTES_MAX)
            if content is None:
                continue
            if new.stamp(name) is not None:
                print_error(f"hall: {new.where(name)} exists already, and was left as it is")
                continue
            new.change(name, DOCUMENT_BYTES_MAX, partial(_replaced, content))
            copied.append(name)
        lines = old.tail(AUDIT, AUDIT_LINES_MAX)
        if lines and not new.tail(AUDIT, 1):
            for start in range(0, len(lines), LINES_AT_ONCE):
                new.append(AUDIT, lines[start : start + LINES_AT_ONCE])
            copied.append(AUDIT)
    return copied


def _replaced(content: bytes, _before: bytes | None) -> bytes:
    return content
