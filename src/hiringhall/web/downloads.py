"""Whole lists as files: CSV for spreadsheets, JSON for programs.

Invariant: a download is made page by page while it is sent, and ends after `ROWS_MAX` rows. No cell of a CSV
file is a formula.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.responses import StreamingResponse

from hiringhall.web.route import JSON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.responses import Response

    from hiringhall.web.calls import Call

ROWS_MAX: Final = 1_000_000
PAGE: Final = 1000
CSV: Final = "text/csv; charset=utf-8"
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", *"\uff1d\uff0b\uff0d\uff20", "'")
"""What a spreadsheet takes for the beginning of a formula, and the apostrophe that marks text."""
_encode: Final = msgspec.json.Encoder().encode


async def download(call: Call, name: str, ask: Callable[[Call], Awaitable[Any]]) -> Response:
    """All pages of a list as one file. `ask` answers one page, as the handler of the list does."""
    form: str = call.query.format
    question = msgspec.structs.replace(call.query, format=msgspec.UNSET, limit=PAGE)
    first = await ask(call._replace(query=question))  # an error is a problem, not a broken file
    written = _csv if form == "csv" else _json
    return StreamingResponse(
        written(_pages(call, question, first, ask)),
        media_type=CSV if form == "csv" else JSON,
        headers={"content-disposition": f'attachment; filename="{name}.{form}"'},
    )


async def _pages(
    call: Call, question: Any, first: Any, ask: Callable[[Call], Awaitable[Any]]
) -> AsyncIterator[list[Any]]:
    answer, rows = first, 0
    while True:
        rows += len(answer.items)
        yield answer.items
        if answer.next is None or rows >= ROWS_MAX:
            return
        question = msgspec.structs.replace(question, cursor=answer.next)
        answer = await ask(call._replace(query=question))


async def _json(pages: AsyncIterator[list[Any]]) -> AsyncIterator[bytes]:
    separator = b"[\n"
    async for items in pages:
        for item in items:
            yield separator + _encode(item)
            separator = b",\n"
    yield b"[]\n" if separator == b"[\n" else b"\n]\n"


async def _csv(pages: AsyncIterator[list[Any]]) -> AsyncIterator[bytes]:
    begun = False
    async for items in pages:
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\r\n")
        for item in items:
            if not begun:
                rows.writerow(item.__struct_fields__)
                begun = True
            rows.writerow([_cell(getattr(item, name)) for name in item.__struct_fields__])
        yield text.getvalue().encode("utf-8", "replace")


def _cell(value: object) -> str | int | float:
    """A value as text; text that begins like a formula gets an apostrophe in front."""
    if value is None or value is msgspec.UNSET:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else _encode(value).decode().strip('"')
    text = text.replace("\0", "\ufffd")
    return f"'{text}" if text.startswith(FORMULA) else text
