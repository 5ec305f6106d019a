"""A hall that is running, as a command asks it: the flags that name it, the connection, and its errors.

Invariant: whatever goes wrong between a command and the hall is a `CommandError`: one line that says what to
do. The hall is told who uses the command, so changes are in its audit log with a name.
"""

from __future__ import annotations

import getpass
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from hiringhall.amounts import BadAmounts, needs_text, parse_needs
from hiringhall.cli.connection_log import logging_as_lines
from hiringhall.cli.reporting import (
    UNREACHABLE,
    WRONG_USE,
    CommandError,
    json_line,
    print_error,
    print_result,
)
from hiringhall.dialects.native import wire
from hiringhall.sdk.addresses import read_addresses
from hiringhall.sdk.connection import Connection
from hiringhall.sdk.errors import HallError, HallRefused, HallUnreachable
from hiringhall.sdk.loop_thread import LoopThread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator

T = TypeVar("T")

ID_MAX: Final = (1 << 63) - 1
PERSON_BYTES_MAX: Final = 200

HallFlag = Annotated[
    str | None,
    typer.Option(
        "--hall",
        metavar="URL",
        help="Where the hall is, such as hall://HOST:PORT. Default: $HALL_URL, or the hall on this machine.",
    ),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]


class Remote:
    """The connection of one command."""

    def __init__(self, url: str | None) -> None:
        self.connection = Connection(read_addresses(url), name="hall command", person=_person())
        self._thread = LoopThread("hall")

    def ask(self, kind: str, body: Any) -> Any:
        """The hall's answer."""
        return self.run(self.connection.request(kind, body))

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of the connection."""
        return self._thread.run(call)

    def close(self) -> None:
        self._thread.stop()

    def pages(self, kind: str, filters: dict[str, Any], place: str, limit: int | None) -> Iterator[Any]:
        """The maps of `jobs`, `history` or `flows`. `place` is the entry that says where a page begins."""
        left = limit
        while True:
            count = wire.LIST_MAX if left is None else min(wire.LIST_MAX, left)
            found, following = self.ask(kind, {**filters, "count": count})
            yield from found
            if left is not None:
                left -= len(found)
            if following is None or left == 0:
                return
            filters = {**filters, place: following}

    def positions(self, kind: str, *more: bytes) -> Iterator[Any]:
        """All maps of `queues` or `workers`."""
        position = 0
        while True:
            found = self.ask(kind, (position, wire.LIST_MAX, *more))
            yield from found
            position += len(found)
            if len(found) < wire.LIST_MAX:
                return


@contextmanager
def connected(url: str | None, tell: Callable[[str], None] = print_error) -> Iterator[Remote]:
    """A hall at a URL; None: of HALL_URL, or on this machine. Nothing is connected before the first request.
    `tell` is called with a line if the connection is lost while something waits for an answer.
    """
    try:
        remote = Remote(url)
    except ValueError as error:
        raise CommandError(f"--hall: {error}", WRONG_USE) from error
    try:
        with logging_as_lines(tell):
            yield remote
    except HallUnreachable as error:
        text = str(error).replace("or set", "or name another with --hall or")
        raise CommandError(f"{text}; it needs a native door", UNREACHABLE) from error
    except HallRefused as error:
        raise CommandError(refusal(error)) from error
    except HallError as error:
        raise CommandError(str(error)) from error
    finally:
        remote.close()


def refusal(error: HallRefused) -> str:
    """What the hall refused, and what to do where that is known."""
    if error.code == wire.UNAUTHORIZED:
        return f"{error.text}; put the token into the environment variable HALL_TOKEN"
    return error.text


def name_of(written: str) -> bytes:
    """A name or a text of the command line, as the bytes that were typed."""
    return os.fsencode(written)


def read_needs(words: list[str], exit_code: int) -> str:
    """What --resource says that a job needs. Raises CommandError."""
    try:
        return needs_text(parse_needs(" ".join(words).encode())).decode()
    except BadAmounts as error:
        raise CommandError(f"--resource: {str(error).removeprefix('resources: ')}", exit_code) from None


def job_id(written: str) -> int:
    """The id of a job. Raises CommandError."""
    if not (
        written.isascii()
        and written.isdigit()
        and len(written) <= len(str(ID_MAX))
        and 0 < int(written) <= ID_MAX
    ):
        raise CommandError(f'"{written[:80]}" is not the id of a job; ids are numbers from 1', WRONG_USE)
    return int(written)


def print_json(documents: Iterable[Any]) -> None:
    """One line for each document."""
    for document in documents:
        sys.stdout.write(json_line(document))
    print_result("")


def _person() -> str:
    """Who uses this command: the name at this machine, for the audit log."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = f"user {os.getuid()}"
    return name.encode(errors="replace")[:PERSON_BYTES_MAX].decode(errors="ignore")
