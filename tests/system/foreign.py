"""Other people's clients and workers, as processes that a test talks to line by line.

Each has a small program in `clients/` that knows these words. What it answers starts with "> "; whatever
else its library prints is passed over. A dot stands for "no unique".

A client is told                              and answers
  run PRIORITY FUNCTION UNIQUE DATA             progress N D, data X, warning X; complete X, fail or exception X
  twins FUNCTION UNIQUE DATA                    the same for two submits that are joined, over one connection
  background PRIORITY FUNCTION UNIQUE DATA      created HANDLE
  at EPOCH FUNCTION UNIQUE DATA                 created HANDLE
  status HANDLE                                 status KNOWN RUNNING N D
  unique UNIQUE                                 status KNOWN RUNNING N D CLIENTS
  reduce FUNCTION REDUCER UNIQUE DATA           as run
  echo TEXT                                     echo TEXT
and after each answer "ok", before it "cannot" where the library has no way to say it.

A worker says "ready" and does these functions:
  reverse   the data, backwards                 warn     warning "careful", result "warned"
  count     progress 1/3, 2/3, 3/3, "counted"   fail     fails
  chunks    data "one", "two", then "three"     raise    fails with the exception "boom"
  unique    the unique of the job               gate     progress 3/7, says "gate", reads a line, "opened"
"""

from __future__ import annotations

import importlib.util
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from hall_process import CODE

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

PROGRAMS: Final = Path(__file__).parent / "clients"
NODE_MODULES: Final = Path(__file__).parents[2] / ".clients" / "node_modules"
ANSWER_S: Final = 20.0


class Kind(NamedTuple):
    """A library in some language: how to start its two programs, and how to tell that it is there."""

    name: str
    command: Callable[[str, Path], list[str]]
    """For "client" or "worker", and a folder to build in."""
    missing: Callable[[], str]
    """What is not there, in words; empty when all is."""


def missing_program(*names: str) -> str:
    return ", ".join(name for name in names if shutil.which(name) is None)


def _missing_perl() -> str:
    if missing_program("perl"):
        return "perl"
    modules = ["-MGearman::Client", "-MGearman::Worker", "-e1"]
    found = subprocess.run(["perl", *modules], capture_output=True, check=False)
    return "" if found.returncode == 0 else "Perl's Gearman::Client (libgearman-client-perl)"


def _missing_node() -> str:
    if missing_program("node"):
        return "node"
    return "" if (NODE_MODULES / "gearmanode").is_dir() else "npm's gearmanode"


def _missing_module(name: str, distribution: str) -> str:
    return "" if importlib.util.find_spec(name) else f"PyPI's {distribution}"


def _missing_libgearman() -> str:
    if missing_program("cc"):
        return "cc"
    return "" if Path("/usr/include/libgearman/gearman.h").exists() else "libgearman-dev"


def _compiled(role: str, folder: Path) -> list[str]:
    program = folder / f"libgearman_{role}"
    if not program.exists():
        source = PROGRAMS / f"libgearman_{role}.c"
        subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-o", program, source, "-lgearman"], check=True)
    return [str(program)]


PERL: Final = Kind("perl", lambda role, _: ["perl", str(PROGRAMS / f"perl_{role}.pl")], _missing_perl)
GEAR: Final = Kind(
    "gear",
    lambda role, _: [sys.executable, str(PROGRAMS / f"gear_{role}.py")],
    lambda: _missing_module("gear", "gear"),
)
GEARMAN3: Final = Kind(
    "gearman3",
    lambda role, _: [sys.executable, str(PROGRAMS / f"gearman3_{role}.py")],
    lambda: _missing_module("gearman", "gearman3"),
)
GEARMANODE: Final = Kind(
    "gearmanode", lambda role, _: ["node", str(PROGRAMS / f"gearmanode_{role}.js")], _missing_node
)
LIBGEARMAN: Final = Kind("libgearman", _compiled, _missing_libgearman)
KINDS: Final = (PERL, GEAR, GEARMAN3, GEARMANODE, LIBGEARMAN)


class Program:
    """A process whose output is read line by line, each within a time."""

    def __init__(self, command: list[str], folder: Path, *, answers_only: bool = False) -> None:
        self.name = Path(command[0]).name
        self._errors = folder / f"{self.name}-{time.monotonic_ns()}.stderr"
        self._answers_only = answers_only
        self._buffer = b""
        node = {"NODE_PATH": str(NODE_MODULES), "NODE_NO_WARNINGS": "1"}
        environment = {**os.environ, "PYTHONPATH": CODE, **node}
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=folder,
                env=environment,
                bufsize=0,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def say(self, *words: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)).encode() + b"\n")

    def line(self, timeout_s: float = ANSWER_S) -> str:
        """The next line of its output."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                if not self._answers_only:
                    return line.decode()
                if line.startswith(b"> "):
                    return line[2:].decode().rstrip()
                continue
            self._read_more(deadline_s)

    def _read_more(self, deadline_s: float) -> None:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline_s - time.monotonic()))
        data = os.read(self.process.stdout.fileno(), 65536) if ready else b""
        if not data:
            trouble = "ended" if ready else "was silent for too long"
            raise AssertionError(
                f"{self.name} {trouble}; its output: {self._buffer!r}; stderr:\n{self.errors()}"
            )
        self._buffer += data

    def waiting(self, timeout_s: float) -> bool:
        """Whether new output comes, now or within a time."""
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], timeout_s)[0])

    def ask(self, *words: object) -> list[str]:
        """Say something and return the answer's lines."""
        self.say(*words)
        return self.answer()

    def answer(self) -> list[str]:
        """The lines up to "ok"."""
        lines: list[str] = []
        while (line := self.line()) != "ok":
            lines.append(line)
        return lines

    def finish(self, timeout_s: float = ANSWER_S) -> int:
        """Close its input and wait for its end; the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} has not ended; stderr:\n{self.errors()}") from None

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def errors(self) -> str:
        return self._errors.read_text(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is not None and self.errors():
            error.add_note(f"{self.name} wrote:\n{self.errors()}")


def first_to_speak(*programs: Program, timeout_s: float = ANSWER_S) -> Program:
    """Whichever has something to be read."""
    outputs = {program.process.stdout: program for program in programs if program.process.stdout is not None}
    ready, _, _ = select.select(outputs, [], [], timeout_s)
    assert ready, f"none of them spoke within {timeout_s} s"
    return outputs[ready[0]]


def open_client(kind: Kind, address: str, folder: Path) -> Program:
    return Program([*kind.command("client", folder), address], folder, answers_only=True)


def open_worker(kind: Kind, address: str, folder: Path) -> Program:
    """A worker that says it is ready; the server may not know of it yet."""
    program = Program([*kind.command("worker", folder), address], folder, answers_only=True)
    ready = program.line()
    assert ready == "ready", ready
    return program
