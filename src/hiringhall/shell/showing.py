"""What `hall run` shows: the output of each command, files of results, lines of JSON, and a progress bar.

Invariant: the output of a job is written as one piece. To a terminal control characters go escaped, so that a
job cannot command it; to a file or a pipe every byte goes as it is.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hiringhall.shell.joblog import JobLog
    from hiringhall.shell.outputs import Stream
    from hiringhall.shell.running import Job

_CONTROLS: Final = re.compile(b"\x7f|\xc2[\x80-\x9f]")
"""Control characters, in UTF-8, that JSON allows in a text, and terminals obey."""
JSON_BYTES_MAX: Final = 1 << 20
"""Of a stream, in a line of JSON."""
REDRAW_S: Final = 0.2
RATE_S: Final = 15.0
"""The rate is that of the latest seconds."""
BAR_COLUMNS: Final = 20


class Counts:
    """What has become of the jobs so far."""

    def __init__(self) -> None:
        self.done = 0
        self.failed = 0
        self.cancelled = 0
        self.started_s = time.monotonic()

    @property
    def told(self) -> int:
        return self.done + self.failed + self.cancelled

    def add(self, job: Job) -> None:
        if job.state == "done":
            self.done += 1
        elif job.state == "cancelled":
            self.cancelled += 1
        else:
            self.failed += 1


class Bar:
    """One line at the bottom of a terminal. Elsewhere it does nothing."""

    def __init__(self, counts: Counts, total: Callable[[], int | None], *, shown: bool) -> None:
        self._counts = counts
        self._total = total
        self.shown = shown
        self._drawn = False
        self._drawn_s = 0.0
        self._marks: deque[tuple[float, int]] = deque()

    def clear(self) -> None:
        """Remove it, before something else is written."""
        if self._drawn:
            self._drawn = False
            os.write(2, b"\r\x1b[K")

    def draw(self, *, now: bool = False) -> None:
        """Draw it, unless it was drawn a moment ago."""
        at_s = time.monotonic()
        if not self.shown or (at_s - self._drawn_s < REDRAW_S and not now):
            return
        self._drawn_s = at_s
        columns = max(shutil.get_terminal_size((80, 24)).columns - 1, 10)
        os.write(2, b"\r\x1b[K" + self.line(at_s)[:columns].encode())
        self._drawn = True

    def line(self, at_s: float) -> str:
        """How far it is, the rate and the time left."""
        told, total = self._counts.told, self._total()
        marks = self._marks
        if not marks:
            marks.append((self._counts.started_s, 0))
        marks.append((at_s, told))
        while len(marks) > 2 and at_s - marks[0][0] > RATE_S:
            marks.popleft()
        rate = (told - marks[0][1]) / max(at_s - marks[0][0], 0.001)
        failed = f", {self._counts.failed:,} failed" if self._counts.failed else ""
        if not total:
            return f"{told:,} jobs{failed}  {rate:,.1f}/s"
        filled = BAR_COLUMNS * told // total
        left = f"  {_span((total - told) / rate)} left" if rate else ""
        bar = "#" * filled + "." * (BAR_COLUMNS - filled)
        return f"[{bar}] {told:,}/{total:,}{failed}  {rate:,.1f}/s{left}"


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}"


class Show:
    """Writes what is to be seen of each job."""

    def __init__(
        self,
        bar: Bar,
        escaped: Callable[[bytes], bytes],
        *,
        tag: bool,
        as_json: bool,
        results: Path | None,
        log: JobLog | None,
    ) -> None:
        """`escaped`: output as it may go to a terminal."""
        self._bar = bar
        self._escaped = escaped
        self._tag = tag
        self._as_json = as_json
        self._results = results
        self._log = log
        self._terminal = (sys.stdout.isatty(), sys.stderr.isatty())

    def job(self, job: Job) -> None:
        """Show the output of a job. Raises OSError."""
        if self._log is not None:
            self._log.add(job)
        if self._results is not None and job.state != "cancelled":
            write_result(self._results, job)
        if self._as_json:
            self._bar.clear()
            self._write(1, [encode_line(job)])
        elif job.output.stdout.size or job.output.stderr.size or job.state == "failed":
            self._bar.clear()
            self._copy(1, job, job.output.stdout)
            self._copy(2, job, job.output.stderr)
            self._explain(job)
        self._bar.draw()

    def wants(self, job: Job) -> bool:
        """Something is written about it."""
        if self._as_json or self._results is not None or self._log is not None or self._bar.shown:
            return True
        return bool(job.output.stdout.size or job.output.stderr.size or job.state == "failed")

    def end(self) -> None:
        """Nothing more comes. Raises OSError."""
        self._bar.clear()
        if self._log is not None:
            self._log.close()

    def say(self, text: str) -> None:
        """A line about the run, on stderr. Raises OSError."""
        self._bar.clear()
        self._write(2, [self._escaped(text.encode(errors="surrogateescape")) + b"\n"])

    def _explain(self, job: Job) -> None:
        """Say why a command failed that did not say it itself."""
        if job.state == "failed" and not job.output.stderr.size:
            reason = f": {job.text}" if job.text else ""
            command = os.fsdecode(job.planned.command)
            text = f"hall: job {job.planned.number} failed with code {job.code}{reason}: {command[:200]}"
            self._write(2, [self._escaped(text.encode(errors="surrogateescape").replace(b"\n", b" ")) + b"\n"])

    def _copy(self, descriptor: int, job: Job, stream: Stream) -> None:
        pieces = stream.pieces()
        if self._tag:
            pieces = tagged(pieces, b" ".join(job.planned.arguments) + b"\t")
        if self._terminal[descriptor - 1]:
            pieces = map(self._escaped, pieces)
        self._write(descriptor, pieces)

    def _write(self, descriptor: int, pieces: Iterator[bytes] | list[bytes]) -> None:
        for piece in pieces:
            left = memoryview(piece)
            while left:
                left = left[os.write(descriptor, left) :]


def tagged(pieces: Iterator[bytes], tag: bytes) -> Iterator[bytes]:
    """The same lines, each with the tag before it."""
    begins = True
    for piece in pieces:
        body = piece[:-1] if piece.endswith(b"\n") else piece
        yield (tag if begins else b"") + body.replace(b"\n", b"\n" + tag) + piece[len(body) :]
        begins = piece.endswith(b"\n")


def describe(job: Job) -> dict[str, Any]:
    """What is known of a job at its end, without its output."""
    described: dict[str, Any] = {"number": job.planned.number, "id": str(job.job_id) if job.job_id else None}
    described |= _text("command", job.planned.command)
    described["arguments"] = [
        os.fsdecode(word).encode(errors="replace").decode() for word in job.planned.arguments
    ]
    described |= {"state": job.state, "code": job.code, "seconds": job.seconds, "error": job.text}
    return described


def encode_line(job: Job) -> bytes:
    """A line of JSON with the output."""
    described = describe(job)
    truncated = False
    for name, stream in (("stdout", job.output.stdout), ("stderr", job.output.stderr)):
        data = b""
        for piece in stream.pieces():
            data += piece
            if len(data) >= JSON_BYTES_MAX:
                break
        described |= _text(name, data[:JSON_BYTES_MAX])
        truncated = truncated or stream.size > JSON_BYTES_MAX
    described["truncated"] = truncated
    line = msgspec.json.encode(described)
    return _CONTROLS.sub(lambda found: b"\\u00%02x" % found[0][-1], line) + b"\n"


def _text(name: str, data: bytes) -> dict[str, str]:
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {name: data.decode(errors="replace"), f"{name}_base64": base64.b64encode(data).decode()}


def write_result(folder: Path, job: Job) -> None:
    """Write the files of a job: the one that describes it comes last, and whole. Raises OSError."""
    own = folder / str(job.planned.number)
    own.mkdir(parents=True, exist_ok=True)
    for name, stream in (("stdout", job.output.stdout), ("stderr", job.output.stderr)):
        with (own / name).open("wb") as file:
            file.writelines(stream.pieces())
    new = own / "job.json.new"
    new.write_bytes(msgspec.json.encode(describe(job)) + b"\n")
    new.replace(own / "job.json")
