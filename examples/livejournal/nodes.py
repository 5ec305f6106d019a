"""Web nodes of the journal: toy ones, but processes all the same; and how to restart them under traffic."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class WebNode:
    """A process that serves a folder from when this is made until it is stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
        self.process = subprocess.Popen(  # noqa: S603 (our own interpreter)
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        listens = re.search(r"port (\d+)", self.process.stdout.readline())
        assert listens is not None, "the web node did not start"
        self.port = int(listens[1])

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate()


@contextmanager
def web_nodes(folder: Path, count: int) -> Iterator[list[WebNode]]:
    nodes: list[WebNode] = []
    try:
        nodes.extend(WebNode(folder) for _ in range(count))
        yield nodes
    finally:
        for node in nodes:
            node.stop()


def restart_web_nodes(nodes: list[WebNode]) -> str:
    """One after the other, each new one before its old one goes: somebody serves all the time."""
    for place, old in enumerate(nodes):
        nodes[place] = WebNode(old.folder)
        old.stop()
    return f"nodes restarted: {len(nodes)}"
