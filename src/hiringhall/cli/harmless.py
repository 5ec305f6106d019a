"""Text that a terminal shows and does not obey, whatever bytes it was made of."""

from __future__ import annotations


def harmless(data: bytes | str, *, lines: bool = False) -> str:
    """As text without anything that a terminal would act on, such as the controls of C0 and C1; line ends stay
    if they may.
    """
    text = data if isinstance(data, str) else data.decode(errors="backslashreplace")
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or (lines and char == "\n") else repr(char)[1:-1] for char in text
    )
