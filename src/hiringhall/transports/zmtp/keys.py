"""Keys for CURVE: their form in text, and the files that pyzmq makes.

Such a file has a line `curve`, and below it, indented, `public-key = "..."` and perhaps `secret-key = "..."`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from nacl.bindings import crypto_scalarmult_base

KEY_BYTES: Final = 32
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES: Final = {digit: value for value, digit in enumerate(_DIGITS)}
_WORD: Final = 1 << 32
_SECRET_KEY: Final = re.compile(r'^[ \t]+secret-key[ \t]*=[ \t]*"([^"\n]*)"[ \t]*$', re.MULTILINE)
_CURVE: Final = re.compile(r"^curve[ \t]*$", re.MULTILINE)


def decode_key(text: bytes) -> bytes:
    """A key of 40 characters in Z85: five of them are four bytes. Raises ValueError."""
    if len(text) != KEY_BYTES // 4 * 5:
        raise ValueError("a key has 40 characters")
    words: list[bytes] = []
    for at in range(0, len(text), 5):
        word = 0
        for digit in text[at : at + 5]:
            if digit not in _VALUES:
                raise ValueError("a key has only characters of Z85")
            word = word * len(_DIGITS) + _VALUES[digit]
        if word >= _WORD:
            raise ValueError("these five characters are not four bytes in Z85")
        words.append(word.to_bytes(4, "big"))
    return b"".join(words)


def public_key(secret_key: bytes) -> bytes:
    """The public key that belongs to a secret one."""
    return bytes(crypto_scalarmult_base(secret_key))


def read_secret_key(path: str) -> bytes:
    """The secret key in a file, in Z85; empty if the file has only a public one. Raises OSError if it cannot be
    read and ValueError if it is no such file.
    """
    text = Path(path).read_text(encoding="utf-8")
    if _CURVE.search(text) is None or "public-key" not in text:
        raise ValueError(f"no keys in {path}: it is not a file as pyzmq makes it")
    found = _SECRET_KEY.search(text)
    return found[1].encode() if found is not None else b""
