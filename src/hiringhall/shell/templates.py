"""Commands from a template and arguments, with the replacement strings of GNU parallel.

    {}    the argument              {/}   without its folder
    {.}   without its extension     {//}  its folder
    {/.}  without both              {#}   the number of the job
    {%}   the number of the slot    {2}   the argument of the second list; also {2.}, {2/}, {2//}, {2/.}, {-1}

Invariant: an argument is always one word for the shell, whatever bytes it has, also where the template has the
replacement string inside quotes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_REPLACEMENT: Final = re.compile(rb"\{(-?[1-9][0-9]{0,3})?(\.|//|/\.|/)?\}|\{#\}|\{%\}")
_SAFE: Final = re.compile(rb"[A-Za-z0-9_@%+=:,./-]+")
_EXTENSION: Final = re.compile(rb"\.[^/.]+\Z")
SLOT: Final = b'"$HALL_SLOT"'
"""The slot is known when the command runs: the worker sets the variable."""
ALL: Final = 0
"""In place of the number of a list: the arguments of all lists."""

PLAIN: Final = "plain"
SINGLE: Final = "'"
DOUBLE: Final = '"'


class BadTemplate(ValueError):
    """Why a template cannot be used."""


def quote(word: bytes) -> bytes:
    """The bytes as one word of the shell."""
    if _SAFE.fullmatch(word):
        return word
    return b"'" + word.replace(b"'", b"'\\''") + b"'"


def _without_extension(path: bytes) -> bytes:
    return _EXTENSION.sub(b"", path)


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _folder(path: bytes) -> bytes:
    head, slash, _ = path.rstrip(b"/").rpartition(b"/")
    return head.rstrip(b"/") or (b"/" if slash else b".")


_CHANGES: Final[dict[bytes, Callable[[bytes], bytes]]] = {
    b"": lambda path: path,
    b".": _without_extension,
    b"/": _name,
    b"//": _folder,
    b"/.": lambda path: _without_extension(_name(path)),
}


class _Hole(NamedTuple):
    """Where something is put in."""

    kind: bytes
    """`#`, `%`, or how the argument is changed."""
    place: int
    """The number of the list, from 1 or from -1 backwards, or ALL."""
    context: str
    """The quotes around it."""


class Template:
    """A command with holes."""

    def __init__(self, text: bytes, lists: int | None) -> None:
        """`lists`: how many arguments each job has; None: some have more than others. Raises BadTemplate."""
        self._lists = lists
        if _REPLACEMENT.search(text) is None:
            text += b" {}"
        self.text = text
        self._parts: list[bytes | _Hole] = []
        end = 0
        contexts = _Contexts(text)
        for found in _REPLACEMENT.finditer(text):
            context = contexts.at(found.start())
            if context is None:
                continue
            self._parts.append(text[end : found.start()])
            self._parts.append(self._hole(found, context))
            end = found.end()
        self._parts.append(text[end:])

    def _hole(self, found: re.Match[bytes], context: str) -> _Hole:
        if found[0] in {b"{#}", b"{%}"}:
            return _Hole(found[0][1:2], ALL, context)
        place = int(found[1] or ALL)
        if self._lists is not None and abs(place) > self._lists:
            written = found[0].decode()
            raise BadTemplate(f"{written} has no argument: each job has {self._lists}")
        return _Hole(found[2] or b"", place, context)

    def fill(self, arguments: Sequence[bytes], number: int) -> bytes:
        """The command of a job."""
        return b"".join(
            part if isinstance(part, bytes) else self._value(part, arguments, number) for part in self._parts
        )

    def _value(self, hole: _Hole, arguments: Sequence[bytes], number: int) -> bytes:
        if hole.kind == b"#":
            return b"%d" % number
        if hole.kind == b"%":
            value = SLOT
        else:
            change = _CHANGES[hole.kind]
            if hole.place == ALL:
                value = b" ".join([quote(change(argument)) for argument in arguments])
            elif abs(hole.place) > len(arguments):
                value = b""  # as GNU parallel does: not even an empty word
            else:
                index = hole.place - 1 if hole.place > 0 else hole.place
                value = quote(change(arguments[index]))
        if hole.context == PLAIN or _SAFE.fullmatch(value):
            return value
        # The quotes of the template end before the value, and begin again after it.
        mark = hole.context.encode()
        return mark + value + mark


class _Contexts:
    """Which quotes are around a place of a shell command. Places are asked for in ascending order."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._at = 0
        self._open: list[bytes] = []
        """What is open, outermost first: ' " ( or `."""

    def at(self, place: int) -> str | None:
        """The context; None: the place is escaped by a backslash."""
        while self._at < place:
            self._at += self._step()
        if self._at > place:
            return None
        top = self._open[-1] if self._open else b""
        return SINGLE if top == b"'" else DOUBLE if top == b'"' else PLAIN

    def _step(self) -> int:
        """Read a character, and what belongs to it; how many that were."""
        char = self._text[self._at : self._at + 1]
        top = self._open[-1] if self._open else b""
        if top == b"'":
            if char == b"'":
                self._open.pop()
            return 1
        if char == b"\\":
            return 2
        if char in {b'"', b"`"}:
            if top == char:
                self._open.pop()
            else:
                self._open.append(char)
        elif top == b'"':
            if self._text.startswith(b"$(", self._at):
                self._open.append(b"(")
                return 2
        elif char in {b"'", b"("}:
            self._open.append(char)
        elif char == b")" and top == b"(":
            self._open.pop()
        return 1
