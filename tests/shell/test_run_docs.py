"""The blocks of docs/run.md, as they stand there, and its lists of options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from page_blocks import DOCS, Shell, read_blocks

from hiringhall.cli.commands import COMMANDS, Entry
from hiringhall.cli.loading import load

if TYPE_CHECKING:
    from pathlib import Path

PAGE: Final = (DOCS / "run.md").read_text(encoding="utf-8")


def test_the_blocks_print_what_the_page_says(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {})
    blocks = read_blocks("run.md", "sh")
    assert len(blocks) == 2
    for block in blocks:
        shell.check(block)


def test_the_page_has_every_option() -> None:
    [entry] = [entry for entry in COMMANDS if isinstance(entry, Entry) and entry.name == "run"]
    options = {name for parameter in load(entry).params for name in parameter.opts if name.startswith("-")}
    written = set(re.findall(r"`(--?[\w-]+)", PAGE))
    assert options - written <= {"-h", "--help"}
