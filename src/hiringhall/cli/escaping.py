"""Text without control characters, whatever bytes it was made of."""

from __future__ import annotations


def escaped(data: bytes | str, *, lines: bool = False) -> str:
    """As text in which control characters are escaped; with `lines`, line ends are kept."""
    text = data if isinstance(data, str) else data.decode(errors="backslashreplace")
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or (lines and char == "\n") else repr(char)[1:-1] for char in text
    )
