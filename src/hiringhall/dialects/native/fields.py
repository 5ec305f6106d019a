"""The body of a request that is a map of named fields, each of which may be left out.

Invariant: a field that is not known, or not as it must be, is refused by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Raw
from msgspec.msgpack import Decoder

from hiringhall.core.errors import BAD_REQUEST, Refusal
from hiringhall.dialects.native import wire

if TYPE_CHECKING:
    from collections.abc import Sequence

_FIELDS: Final = Decoder(dict[str, Raw] | None)
_BYTES: Final = Decoder(bytes)
_TEXT: Final = Decoder(str)
_NUMBER: Final = Decoder(int)
_FLAG: Final = Decoder(bool)
_DECIMAL: Final = Decoder(float)
_COUNTS: Final = Decoder(dict[bytes, int])
_Value = TypeVar("_Value")


class Fields:
    """The fields of one request. Each is taken once; `end` refuses those that nobody took."""

    __slots__ = ("_stated",)

    def __init__(self, body: Raw) -> None:
        # Stated as optional first: compiled code would expect a dict, and raise at nil.
        stated: dict[str, Raw] | None = wire.decode(_FIELDS, body)
        self._stated: dict[str, Raw] = stated if stated is not None else {}

    def data(self, name: str) -> bytes | None:
        """A name or other bytes; None: it was left out."""
        return self._take(name, _BYTES, "must be bytes (bin)")

    def text(self, name: str) -> str | None:
        """A text, given as `bin` in UTF-8 or as `str`; None: it was left out."""
        value = self._stated.pop(name, None)
        return text_of(name, value) if value is not None else None

    def number(self, name: str, least: int, most: int) -> int | None:
        """A whole number; None: it was left out."""
        problem = f"must be a whole number from {least} to {most}"
        value = self._take(name, _NUMBER, problem)
        if value is not None and not least <= value <= most:
            raise Refusal(BAD_REQUEST, f"{name}: {problem}")
        return value

    def decimal(self, name: str) -> float | None:
        """A number, which may have a fraction; None: it was left out."""
        return self._take(name, _DECIMAL, "must be a number")

    def counts(self, name: str) -> dict[bytes, int] | None:
        """A whole number for each of some names; None: it was left out."""
        return self._take(name, _COUNTS, "must be a map of names (bin) and whole numbers")

    def flag(self, name: str) -> bool:
        """True or false; false if it was left out."""
        return self._take(name, _FLAG, "must be true or false") or False

    def word(self, name: str, words: Sequence[str]) -> str | None:
        """One of some words; None: it was left out."""
        value = self.text(name)
        if value is not None and value not in words:
            raise Refusal(BAD_REQUEST, f"{name}: must be one of {', '.join(words)}")
        return value

    def raw(self, name: str) -> bytes | None:
        """The encoded value; None: it was left out."""
        value = self._stated.pop(name, None)
        return bytes(value) if value is not None else None

    def end(self) -> None:
        """Every field that is known was taken."""
        for name in self._stated:
            raise Refusal(BAD_REQUEST, f"{name[:40]!r} is not a field of this request")

    def _take(self, name: str, decoder: Decoder[_Value], problem: str) -> _Value | None:
        value = self._stated.pop(name, None)
        if value is None:
            return None
        try:
            return wire.decode(decoder, value)
        except wire.BadBody as error:
            raise Refusal(BAD_REQUEST, f"{name}: {problem}") from error


def text_of(name: str, value: Raw) -> str:
    """A text that was given as `bin` in UTF-8 or as `str`. Raises Refusal."""
    try:
        return wire.decode(_TEXT, value)
    except wire.BadBody:
        pass
    try:
        return wire.decode(_BYTES, value).decode()
    except wire.BadBody as error:
        raise Refusal(BAD_REQUEST, f"{name}: must be bytes (bin) or a text (str)") from error
    except UnicodeDecodeError as not_text:
        raise Refusal(BAD_REQUEST, f"{name}: is not UTF-8 text") from not_text
