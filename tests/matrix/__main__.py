"""Sees every cell, and writes docs/matrix.md if all are as the table of losses says: `python -m tests.matrix`.

With words, only those aspects or pairs are seen, such as `cancel` or `gearman.wmp`, and nothing is written.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from rich.console import Console

from .cells import see_all
from .judging import complaints
from .page import PAGE, render


def main() -> int:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    only = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        seen = see_all(Path(folder), only)
    found = complaints(seen)
    for complaint in found:
        console.print(complaint)
    console.print(f"{len(seen)} cells, {len(found)} are not as the table of losses says")
    if found:
        return 1
    if not only:
        PAGE.write_text(render())
    return 0


if __name__ == "__main__":
    sys.exit(main())
