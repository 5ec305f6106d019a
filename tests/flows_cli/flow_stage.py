"""A hall, a worker for shell jobs, and flow files in a folder."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from typing import TYPE_CHECKING, Any, Self

from native_peer import NativePeer
from remote_stage import RemoteStage

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


class ShellWorker(threading.Thread):
    """Runs the commands of shell jobs, one after the other, until the hall or the test is over."""

    def __init__(self, port: int, queue: bytes = b"shell") -> None:
        super().__init__(daemon=True)
        self._peer = NativePeer(port)
        self._peer.socket.settimeout(None)
        self._queue = queue
        self.start()

    def run(self) -> None:
        peer = self._peer.work(self._queue)
        while (frame := peer.read()) is not None:
            kind, _, body = frame
            if kind == "assign":
                self._run(body[0], json.loads(body[3]))

    def _run(self, lease: int, job: dict[str, Any]) -> None:
        ended = subprocess.run(
            ["/bin/sh", "-c", job["command"]],
            cwd=job["cwd"] or None,
            env={**os.environ, **job.get("env", {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if ended.returncode:
            self._peer.send("fail", [lease, ended.returncode, ended.stderr, True])
        else:
            self._peer.send("finish", [lease, b""])

    def stop(self) -> None:
        # The reading thread has the file: only the connection is ended here.
        self._peer.socket.shutdown(2)
        self.join()
        self._peer.close()


class FlowStage(RemoteStage):
    """A hall with a shell worker. Commands of `hall flow` run in `work`, below the folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.work = folder / "work"
        self.work.mkdir()

    def __enter__(self) -> Self:
        super().__enter__()
        self.worker: ShellWorker | None = ShellWorker(self.port)
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop_worker()
        super().__exit__(*error)

    def stop_worker(self) -> None:
        if self.worker is not None:
            self.worker.stop()
            self.worker = None

    def start_worker(self) -> None:
        assert self.worker is None
        self.worker = ShellWorker(self.port)

    def file(self, name: str, text: str) -> str:
        path = self.work / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def flow(self, *words: str, width: int | None = 80) -> Result:
        return self.run("flow", *words, width=width)
