"""A hall, a worker for shell jobs, and flow files in a folder."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any, Final, Self

from remote_stage import RemoteStage
from running import ENVIRONMENT, HALL

from stage.forking import popen

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

STOP_S: Final = 30.0


class FlowStage(RemoteStage):
    """A hall with a worker for commands. Flow files are in `work`, below the folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.work = folder / "work"
        self.work.mkdir()

    def __enter__(self) -> Self:
        super().__enter__()
        self._worker = popen(
            [*HALL, "work", "--shell", "--slots", "2", "--env", "*", "--hall", self.url],
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return self

    def __exit__(self, *error: Any) -> None:
        self._worker.terminate()
        self._worker.wait(STOP_S)
        super().__exit__(*error)

    def popen(self, *words: str) -> subprocess.Popen[str]:
        """A command in a process of its own, in the folder of the files."""
        return popen(
            [*HALL, "flow", *words],
            cwd=self.work,
            env={**ENVIRONMENT, "HALL_URL": self.url},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def file(self, name: str, text: str) -> str:
        path = self.work / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def flow(self, *words: str, width: int | None = 80) -> Result:
        return self.run("flow", *words, width=width)
