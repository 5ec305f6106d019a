"""Runs a very small LiveJournal, in a few seconds: a hall, workers, an application, and the internet around
them; then prints what the log says of each task.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from shutil import get_terminal_size
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from application import run_all
from internet import internet
from journal import Journal
from nodes import web_nodes
from report import rows, table
from rich.console import Console

from hiringhall.records import History

if TYPE_CHECKING:
    from collections.abc import Iterator

    from report import Row

HERE = Path(__file__).parent
WORKERS = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the log as JSON")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="work in a new folder, and leave it there")
    options = parser.parse_args()
    if options.keep is not None and options.keep.exists():
        parser.error(f"{options.keep} is there already; name a new folder")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to stop"))  # through every `finally`
    with ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(TemporaryDirectory(prefix="livejournal-")))
        folder.mkdir(parents=True, exist_ok=True)
        log = run(folder.absolute())
    if options.json:
        print(json.dumps(log, indent=2))
    else:
        Console(width=max(get_terminal_size().columns, 130)).print(table(log))


def run(folder: Path) -> list[Row]:
    """Run everything in a folder; what the log says of it."""
    now = datetime.now(UTC)
    with ExitStack() as stack:
        mail_port, web_port = stack.enter_context(internet(folder))
        journal = Journal.found(folder, mail_port, web_port, now.date())
        hall = stack.enter_context(open_hall(folder / "hall"))
        for _ in range(WORKERS):
            stack.enter_context(program(HERE / "worker.py", hall, *map(str, journal)))
        nodes = stack.enter_context(web_nodes(folder / "gallery", 2))
        history = stack.enter_context(History(folder / "hall"))
        run_all(hall, history, nodes, now)
        return rows(history.find())


@contextmanager
def open_hall(data: Path) -> Iterator[str]:
    """The address of a hall, while it is open."""
    with program("-m", "hiringhall", "serve", "--json", "--config", HERE / "hall.toml", "--data", data) as hall:
        assert hall.stdout is not None
        line = hall.stdout.readline()
        if not line:
            sys.exit("the hall did not open")
        yield json.loads(line)["doors"][0]["address"]


@contextmanager
def program(*arguments: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """A Python program, while it runs. Ctrl-C is for us alone: we tell the others."""
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as started:  # noqa: S603
        try:
            yield started
        finally:
            started.terminate()


if __name__ == "__main__":
    main()
