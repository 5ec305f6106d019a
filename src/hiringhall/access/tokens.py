"""The tokens of a hall: one file of its data folder.

Invariant: the file holds no token, only its digest. It is complete at every moment, and only its owner can read
it. A file that cannot be parsed is never overwritten.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from contextlib import ExitStack, contextmanager
from datetime import datetime  # noqa: TC003 (msgspec looks its types up)
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from hiringhall import datafiles
from hiringhall.dialects.native.roles import WITHOUT_TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

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
    """A file of tokens that cannot be read or changed, worded for the operator."""


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
    """The content of the file."""

    version: Literal[1] = 1
    tokens: list[Token] = []


def digest_of(token: str) -> str:
    """By this a token is found. Look-ups by digest take a time that depends on the digest, which says nothing
    about the token: no comparison in constant time is needed.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class TokenFile:
    """The tokens of one data folder; the file may not exist yet."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def signature(self) -> tuple[int, int, int] | None:
        """Differs once the file was replaced; None: there is no file."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def read(self) -> dict[str, Token] | None:
        """All tokens by name; None: there is no file. Raises TokensError."""
        try:
            with self.path.open("rb") as file:
                data = file.read(BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TokensError(f"{self.path} cannot be read: {error.strerror}") from error
        if len(data) > BYTES_MAX:
            raise TokensError(f"{self.path} is longer than {BYTES_MAX} bytes")
        try:
            tokens = msgspec.json.decode(data, type=_Content).tokens
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TokensError(f"{self.path} was not written by `hall token` ({error}): {_REMEDY}") from error
        named = {token.name: token for token in tokens}
        if len(named) < len(tokens) or len({token.digest for token in tokens}) < len(tokens):
            raise TokensError(f"{self.path} has the same token twice: {_REMEDY}")
        return named

    def add(self, name: str, role: Role, made: datetime, expires: datetime | None) -> str:
        """Make a token; it is told here and never again. Raises TokensError."""
        if not _NAME.fullmatch(name) or name in WITHOUT_TOKEN:
            raise TokensError(
                f"{name[:80]!r} cannot be the name of a token: it takes 1 to 64 letters, digits and ._@+-, "
                f"begins with a letter or digit, and is not {' or '.join(WITHOUT_TOKEN)}"
            )
        token = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        with self._open_to_write() as tokens:
            if name in tokens:
                raise TokensError(f'there is already a token "{name}": revoke it first, or choose another name')
            if len(tokens) >= TOKENS_MAX:
                raise TokensError(f"{self.path} has {TOKENS_MAX} tokens: revoke some first")
            tokens[name] = Token(name=name, role=role, digest=digest_of(token), made=made, expires=expires)
        return token

    def revoke(self, name: str) -> bool:
        """Remove a token; False: there is none with this name. Raises TokensError."""
        if not self.path.exists():
            return False
        with self._open_to_write() as tokens:
            return tokens.pop(name, None) is not None

    def note_uses(self, uses: Mapping[str, datetime]) -> None:
        """Write when tokens were last used, by their digests. Raises TokensError."""
        if not self.path.exists():
            return
        with self._open_to_write() as tokens:
            for name, token in tokens.items():
                used = uses.get(token.digest)
                if used is not None:
                    tokens[name] = msgspec.structs.replace(token, used=used)

    @contextmanager
    def _open_to_write(self) -> Iterator[dict[str, Token]]:
        """The tokens, to be changed. Holds the lock, and writes the changes back."""
        with ExitStack() as stack:
            try:
                folder = stack.enter_context(datafiles.locked(self.path.parent))
            except OSError as error:
                raise TokensError(f"data folder {self.path.parent} cannot be used: {error.strerror}") from error
            tokens = self.read() or {}
            before = dict(tokens)
            yield tokens
            if tokens != before:
                content = _Content(tokens=list(tokens.values()))
                try:
                    data = msgspec.json.format(msgspec.json.encode(content)) + b"\n"
                    datafiles.replace(self.path, data, folder)
                except OSError as error:
                    raise TokensError(f"{self.path} cannot be written: {error.strerror}") from error
