"""Reads a flow file of either form. The form follows from the file's name unless it is given."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hiringhall.flows.lines import read_lines
from hiringhall.flows.tasks import FileError

if TYPE_CHECKING:
    from typing import BinaryIO

    from hiringhall.flows.tasks import FlowFile

LINES: Final = "lines"
YAML: Final = "yaml"
FORMS: Final = (LINES, YAML)
STDIN: Final = "-"
FILE_BYTES_MAX: Final = 512 << 20
PIECE_BYTES: Final = 1 << 20
_YAML_ENDINGS: Final = (".yaml", ".yml")


def read_file(path: str, form: str | None = None) -> FlowFile:
    """The flow of a file; `-` is stdin. Raises FileError, or OSError if the file cannot be read."""
    place = "stdin" if path == STDIN else path
    if path == STDIN:
        data = _read(place, sys.stdin.buffer)
    else:
        with Path(path).open("rb") as file:
            data = _read(place, file)
    if form is None:
        form = YAML if path.lower().endswith(_YAML_ENDINGS) else LINES
    if form == LINES:
        # Names are bytes: what is no UTF-8 comes back as it was.
        return read_lines(place, data.decode(errors="surrogateescape").split("\n"))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileError(place, line, "the file is not UTF-8") from error
    from hiringhall.flows.yaml_tasks import read_yaml  # noqa: PLC0415 (only for such a file)

    return read_yaml(place, text)


def _read(place: str, file: BinaryIO) -> bytes:
    """All of a file, piece by piece: a pipe does not tell its size."""
    pieces: list[bytes] = []
    size = 0
    while piece := file.read(PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > FILE_BYTES_MAX:
            raise FileError(place, 0, f"a flow file may have {FILE_BYTES_MAX:,} bytes")
    return b"".join(pieces)
