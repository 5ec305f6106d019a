"""What a worker's handler returned."""

from __future__ import annotations


def as_result(value: object) -> bytes:
    """The result of a handler as bytes. Any other type is an error of the handler, and fails the job."""
    if value is None:
        return b""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a handler must return bytes or None, not {type(value).__name__}")
