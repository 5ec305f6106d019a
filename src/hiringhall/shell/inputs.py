"""The arguments of `hall run`: lists of the command line, files and standard input, and their combinations.

Invariant: the first list is read as it comes and never kept, so a million lines take no memory; others are
kept, since each of their combinations is made. None in an iterator: the next argument is not there yet.
"""

from __future__ import annotations

import os
import re
import select
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.shell.command import COMMAND_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

READ_BYTES: Final = 1 << 16
STDIN: Final = b"-"
_MARKS: Final = {b":::": (False, False), b":::+": (False, True), b"::::": (True, False), b"::::+": (True, True)}
"""The marks between lists: whether files follow, and whether it is linked with the list before."""


class BadInput(ValueError):
    """Why arguments cannot be read."""


class Reading(NamedTuple):
    """How arguments are made of what is read."""

    separator: bytes = b"\n"
    """Between the arguments in a file."""
    columns: re.Pattern[bytes] | None = None
    """What separates the columns of an argument, each of which is an argument then."""
    each: int = 1
    """How many arguments of a list a job gets."""

    @property
    def varies(self) -> bool:
        """Not all jobs have the same number of arguments."""
        return self.columns is not None or self.each > 1


class Source(NamedTuple):
    """One list of arguments."""

    words: tuple[bytes, ...]
    file: bytes | None
    """Read this file in place of the words; `-` is standard input."""
    linked: bool
    """Its arguments go with those of the list before, one by one."""


def split_words(words: Sequence[bytes], files: Sequence[bytes]) -> tuple[list[bytes], list[Source]]:
    """The words of the command, and the lists. `files`: those of options. Raises BadInput."""
    command: list[bytes] = []
    sources = [Source((), file, linked=False) for file in files]
    current: list[bytes] = command
    pending: list[tuple[tuple[bool, bool], list[bytes]]] = []
    for word in words:
        if word in _MARKS:
            current = []
            pending.append((_MARKS[word], current))
        else:
            current.append(word)
    for (from_files, linked), listed in pending:
        if linked and not sources:
            raise BadInput(":::+ links a list with the one before, and there is none")
        if not from_files:
            sources.append(Source(tuple(listed), None, linked))
            continue
        if not listed:
            raise BadInput(":::: must be followed by a file")
        sources += [Source((), file, linked) for file in listed]
    if not sources:
        sources.append(Source((), STDIN, linked=False))
    if sum(source.file == STDIN for source in sources) > 1:
        raise BadInput("standard input can be read once only")
    return command, sources


def compile_columns(text: str) -> re.Pattern[bytes]:
    """A regular expression that separates columns. Raises BadInput."""
    try:
        return re.compile(os.fsencode(text))
    except re.error as error:
        raise BadInput(f"--colsep is no regular expression: {error}") from error


def count_of(sources: Sequence[Source], each: int = 1) -> int | None:
    """How many jobs there are, with so many combinations each; None: that is known at the end."""
    if any(source.file is not None for source in sources):
        return None
    total = 1
    for group in _groups(sources):
        total *= min(len(source.words) for source in group)
    return -(-total // each)


def arguments_of(sources: Sequence[Source], reading: Reading) -> Iterator[tuple[bytes, ...] | None]:
    """The arguments of each job. Raises BadInput."""
    gathered: tuple[bytes, ...] = ()
    combined = 0
    for arguments in combinations(sources, reading.separator):
        if arguments is None:
            yield None
            continue
        if reading.columns is not None:
            gathered += tuple(column for one in arguments for column in _columns(one, reading.columns))
        else:
            gathered += arguments
        combined += 1
        if combined == reading.each:
            yield gathered
            gathered, combined = (), 0
    if combined:
        yield gathered


def _columns(argument: bytes, separator: re.Pattern[bytes]) -> list[bytes]:
    """Without what groups of the expression have matched."""
    return separator.split(argument)[:: separator.groups + 1]


def combinations(sources: Sequence[Source], separator: bytes) -> Iterator[tuple[bytes, ...] | None]:
    """All of them: the last list changes fastest. Raises BadInput."""
    first, *others = [_linked(group, separator) for group in _groups(sources)]
    kept = [[arguments for arguments in other() if arguments is not None] for other in others]
    for head in first():
        if head is None:
            yield None
            continue
        yield from _with_each(head, kept)


def _with_each(head: tuple[bytes, ...], lists: list[list[tuple[bytes, ...]]]) -> Iterator[tuple[bytes, ...]]:
    if not lists:
        yield head
        return
    for arguments in lists[0]:
        yield from _with_each(head + arguments, lists[1:])


def _groups(sources: Sequence[Source]) -> list[list[Source]]:
    """The lists that are linked with each other together."""
    groups: list[list[Source]] = []
    for source in sources:
        if source.linked:
            groups[-1].append(source)
        else:
            groups.append([source])
    return groups


def _linked(group: list[Source], separator: bytes) -> Callable[[], Iterator[tuple[bytes, ...] | None]]:
    """Arguments of linked lists, one of each; the shortest list ends them."""

    def read() -> Iterator[tuple[bytes, ...] | None]:
        readers = [_arguments(source, separator) for source in group]
        while True:
            arguments: list[bytes] = []
            for reader in readers:
                for argument in reader:
                    if argument is not None:
                        arguments.append(argument)
                        break
                    yield None
                else:
                    return
            yield tuple(arguments)

    return read


def _arguments(source: Source, separator: bytes) -> Iterator[bytes | None]:
    if source.file is None:
        yield from source.words
        return
    if source.file == STDIN:
        yield from _lines(0, separator)
        return
    try:
        descriptor = os.open(source.file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise BadInput(f"{os.fsdecode(source.file)} cannot be read: {error.strerror}") from error
    try:
        yield from _lines(descriptor, separator)
    finally:
        os.close(descriptor)


def _lines(descriptor: int, separator: bytes) -> Iterator[bytes | None]:
    """Lines without their ends. Of one that is too long for a command only the beginning is kept."""
    kept = b""
    while True:
        if not select.select([descriptor], [], [], 0)[0]:
            yield None
        try:
            data = os.read(descriptor, READ_BYTES)
        except OSError as error:
            raise BadInput(f"the input cannot be read: {error.strerror}") from error
        if not data:
            break
        *lines, last = data.split(separator)
        if lines:
            yield kept + lines[0]
            yield from lines[1:]
            kept = last
        else:
            kept = (kept + last)[: COMMAND_BYTES_MAX + 1]
    if kept:
        yield kept
