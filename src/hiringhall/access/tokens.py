"""The tokens of a hall: one document of its data folder or its database.

Invariant: the document holds no token, only its digest. One that cannot be parsed is never overwritten.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import datetime  # noqa: TC003 (msgspec looks its types up)
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from hiringhall.dialects.native.roles import WITHOUT_TOKEN
from hiringhall.storage.documents import DocumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hiringhall.storage.documents import Documents, Stamp

FILE: Final = "tokens.json"
BYTES_MAX: Final = 4 << 20
TOKENS_MAX: Final = 1000
PREFIX: Final = "hall_"
"""So that people, and programs that look for secrets, recognize a token."""
SECRET_BYTES: Final = 32
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")

_REMEDY: Final = "restore it, or remove it and make new tokens"

Role = Literal["viewer", "operator", "admin"]


class TokensError(Exception):
    """Tokens that cannot be read or changed, worded for the operator."""


class Token(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of a token."""

    name: str
    role: Role
    digest: str
    """SHA-256 of the token, in hexadecimal digits. A slow hash protects secrets that can be guessed; this one
    has 256 random bits.
    """
    made: datetime
    expires: datetime | None = None
    """None: it does not expire."""
    used: datetime | None = None
    """When a peer last had it, to a minute or so; None: never."""

    def has_expired(self, now: datetime) -> bool:
        return self.expires is not None and self.expires <= now


class _Content(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The content of the document."""

    version: Literal[1] = 1
    tokens: list[Token] = []


def digest_of(token: str) -> str:
    """By this a token is found. Look-ups by digest take a time that depends on the digest, which says nothing
    about the token: no comparison in constant time is needed.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class TokenList:
    """The tokens of one place; there may be none yet."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self.where = documents.where(FILE)

    @property
    def place(self) -> str:
        return self._documents.place

    def stamp(self) -> Stamp | None:
        """Differs once the tokens were changed; None: there never were any. Raises TokensError."""
        try:
            return self._documents.stamp(FILE)
        except DocumentError as error:
            raise TokensError(str(error)) from error

    def read(self) -> dict[str, Token] | None:
        """All tokens by name; None: there never were any. Raises TokensError."""
        try:
            return self._decode(self._documents.read(FILE, BYTES_MAX))
        except DocumentError as error:
            raise TokensError(str(error)) from error

    def add(self, name: str, role: Role, made: datetime, expires: datetime | None) -> str:
        """Make a token; it is told here and never again. Raises TokensError."""
        if not _NAME.fullmatch(name) or name in WITHOUT_TOKEN:
            raise TokensError(
                f"{name[:80]!r} cannot be the name of a token: it takes 1 to 64 letters, digits and ._@+-, "
                f"begins with a letter or digit, and is not {' or '.join(WITHOUT_TOKEN)}"
            )
        token = PREFIX + secrets.token_urlsafe(SECRET_BYTES)

        def edit(tokens: dict[str, Token]) -> None:
            if name in tokens:
                raise TokensError(f'there is already a token "{name}": revoke it first, or choose another name')
            if len(tokens) >= TOKENS_MAX:
                raise TokensError(f"{self.where} has {TOKENS_MAX} tokens: revoke some first")
            tokens[name] = Token(name=name, role=role, digest=digest_of(token), made=made, expires=expires)

        self._change(edit)
        return token

    def revoke(self, name: str) -> bool:
        """Remove a token; False: there is none with this name. Raises TokensError."""
        if self.stamp() is None:
            return False
        found = False

        def edit(tokens: dict[str, Token]) -> None:
            nonlocal found
            found = tokens.pop(name, None) is not None

        self._change(edit)
        return found

    def note_uses(self, uses: Mapping[str, datetime]) -> None:
        """Write when tokens were last used, by their digests. Raises TokensError."""
        if self.stamp() is None:
            return

        def edit(tokens: dict[str, Token]) -> None:
            for name, token in tokens.items():
                used = uses.get(token.digest)
                if used is not None:
                    tokens[name] = msgspec.structs.replace(token, used=used)

        self._change(edit)

    def _change(self, edit: Callable[[dict[str, Token]], None]) -> None:
        def change(content: bytes | None) -> bytes | None:
            tokens = self._decode(content) or {}
            before = dict(tokens)
            edit(tokens)
            if tokens == before:
                return None
            return msgspec.json.format(msgspec.json.encode(_Content(tokens=list(tokens.values())))) + b"\n"

        try:
            self._documents.change(FILE, BYTES_MAX, change)
        except DocumentError as error:
            raise TokensError(str(error)) from error

    def _decode(self, data: bytes | None) -> dict[str, Token] | None:
        if data is None:
            return None
        try:
            tokens = msgspec.json.decode(data, type=_Content).tokens
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TokensError(f"{self.where} was not written by `hall token` ({error}): {_REMEDY}") from error
        named = {token.name: token for token in tokens}
        if len(named) < len(tokens) or len({token.digest for token in tokens}) < len(tokens):
            raise TokensError(f"{self.where} has the same token twice: {_REMEDY}")
        return named
