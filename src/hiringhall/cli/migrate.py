"""`hall migrate`: everything of a stopped hall from a data folder to PostgreSQL, or back.

Invariant: the source is not changed. A target that is not empty is refused, so nothing is mixed or replaced.
"""

from __future__ import annotations

import shutil
from pathlib import Path  # noqa: TC003 (typer looks its types up)
from typing import Annotated, Final

import typer

from hiringhall.access.tokens import FILE as TOKENS
from hiringhall.cli.progress import bar
from hiringhall.cli.reporting import WRONG_USE, CommandError, json_line, print_error, print_line, print_result
from hiringhall.cli.settings import ConfigFlag, load_settings
from hiringhall.schedules.book import FILE as SCHEDULES
from hiringhall.schedules.pauses import FILE as PAUSES
from hiringhall.storage.opening import files_folder, has_history, move_all, shown

SMALL_FILES: Final = (SCHEDULES, PAUSES, TOKENS)
PlaceHelp: Final = "A data folder, or the URL of a PostgreSQL database."

JsonFlag = Annotated[bool, typer.Option("--json", help="Print what was done as one line of JSON.")]


def migrate(
    source: Annotated[str, typer.Option("--from", metavar="PLACE", help=PlaceHelp)],
    target: Annotated[str, typer.Option("--to", metavar="PLACE", help=f"{PlaceHelp} It must be empty.")],
    config: ConfigFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Move a stopped hall from a data folder to PostgreSQL, or back.

    Jobs, history, output, flows, pauses, schedules and tokens are moved, and job ids stay the same. The source
    is left as it is: remove it yourself when the hall runs on the target.
    """
    if source == target:
        raise CommandError("--from and --to are the same place", WRONG_USE)
    if not has_history(source):
        raise CommandError(f"there is no hall in {shown(source)}; give its data folder or its URL")
    folder = load_settings(config, None).config.hall.folder
    with bar("moving") as shown_bar:
        moved = move_all(source, target, lambda text: print_error(f"hall: {text}"), shown_bar)
    files = _copy_files(files_folder(source, folder), files_folder(target, folder))
    if as_json:
        facts = {"jobs": moved.jobs, "history": moved.lines, "files": files, "to": shown(target)}
        print_result(json_line(facts))
        return 0
    also = f", {', '.join(files)}" if files else ""
    words = f"{moved.jobs:,} unfinished and {moved.lines:,} ended jobs{also}"
    print_line(f"{words} moved from {shown(source)} to {shown(target)}")
    return 0


def _copy_files(source: Path, target: Path) -> list[str]:
    """Copy schedules and tokens, unless the target has such files."""
    copied: list[str] = []
    if source.absolute() == target.absolute():
        return copied
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in SMALL_FILES:
        if (target / name).exists():
            print_error(f"hall: {target / name} exists already, and was left as it is")
        elif (source / name).exists():
            shutil.copyfile(source / name, target / name)
            (target / name).chmod(0o600)
            copied.append(name)
    return copied
