"""Announce, bid, hire: workers on raw sockets bid for jobs that a client submits at a Gearman door.

The main figure is the time from a bid to the hire: the window of the door, and at most 10 ms more. It ends when
the bytes with HIRE reach the socket of the worker, as the kernel notes; how long they wait there until the load
generator reads them is a figure of its own. Every announcement goes to every worker. There are twenty job types
and each worker knows two, so about twenty workers could bid for a job; those whose next place is free do.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import select
import socket
import statistics
import struct
import subprocess
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from figures import AT_LEAST, AT_MOST, Figures, Section
from scenarios import Running
from servers import Hall, announced_port

from hiringhall.dialects.gearman import wire

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from figures import Row
    from scenarios import Stage

WINDOW_S: Final = 0.05
PERFORM_S: Final = 0.02
ANNOUNCED_MIN: Final = 0.98
"""The share of the submitted jobs that must be announced in the same time."""
LATE_S_MAX: Final = 0.01
"""The limit for the time from a bid to the hire, without the window; 99 of 100 must be within it."""
TYPES: Final = 20
BATCH_S: Final = 0.01
WARM_S: Final = 2.0
CHUNK_BYTES: Final = 1 << 18
BIDS_AT_ONCE_MAX: Final = 4
"""A worker has one next place, so it bids for at most this many of the jobs announced together."""
BIDS_KEPT_MAX: Final = 10_000

_TOLD: Final = re.compile(rb" ([HPD][A-Z]+) (\S+)")
"""Finds HIRE, PERFORM and DISMISS: the cheapest way to skip many announcements."""
_ID_BYTES: Final = 36
_SO_TIMESTAMPNS: Final = 35
"""Linux: let `recvmsg` tell when the last of the bytes that it returns arrived. Python has no name for it."""
_TIMESPEC: Final = struct.Struct("@qq")


class HireHall(Hall):
    """`hall serve` with a Gearman door and a hire door."""

    def __init__(self, folder: Path, python: str) -> None:
        super().__init__(folder, python)
        self.hire_port = 0

    def _start(self, log: IO[str]) -> None:
        command = [self.python, "-m", "hiringhall", "serve", "--json", "--data", str(self.folder / "data")]
        command += ["--door", "gearman=127.0.0.1:0", "--door", "hire=127.0.0.1:0"]
        command += ["--set", f"door[1].window_s={WINDOW_S}", "--set", f"door[1].perform_s={PERFORM_S}"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            announced_port(self._process, self._log())
        doors = json.loads(line)["doors"]
        self.port, self.hire_port = (int(door["address"].rpartition(":")[2]) for door in doors)

    def cpu_s(self) -> float:
        """The CPU time that the hall has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Seen:
    """What the workers counted after the warm-up."""

    announced: int = 0
    bids: int = 0
    hired: int = 0
    done: int = 0
    lags_s: list[float] = field(default_factory=list)
    """The time from each accepted bid to the arrival of its HIRE."""
    unread_s: list[float] = field(default_factory=list)
    """The time from the arrival of each HIRE until it was read."""


class Bidder:
    """One worker: it bids while its next place is free, and starts its next job after the current one."""

    def __init__(self, port: int, number: int) -> None:
        self.me = str(uuid.UUID(int=number + 1)).encode()
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self.rest = b""
        self.wanted = [b":t%d\n" % (number % TYPES), b":t%d\n" % ((number * 7 + 3) % TYPES)]
        """The ends of the announcements that it bids for."""
        self.bids: dict[bytes, float] = {}
        self.next_job = self.job = b""

    def heard(self, seen: Seen) -> None:
        read, notes, _, _ = self.socket.recvmsg(CHUNK_BYTES, socket.CMSG_SPACE(_TIMESPEC.size))
        now_s = time.time()
        arrived_s = now_s
        for _, _, note in notes:
            seconds, nanoseconds = _TIMESPEC.unpack(note)
            arrived_s = seconds + nanoseconds / 1e9
        data = self.rest + read
        end = data.rfind(b"\n") + 1
        whole, self.rest = data[:end], data[end:]
        said: list[bytes] = []
        for verb, fields in _TOLD.findall(whole):
            self._told(verb, fields, said, seen, arrived_s, now_s)
        if not self.next_job:
            if len(self.bids) > BIDS_KEPT_MAX:
                self.bids = {job: bid_s for job, bid_s in self.bids.items() if bid_s > now_s - 2 * WINDOW_S - 1}
            wanted = [piece[-_ID_BYTES:] for end_of in self.wanted for piece in whole.split(end_of)[:-1]]
            for job in wanted[:BIDS_AT_ONCE_MAX]:
                self.bids[job] = now_s
                said.append(b"%s AVAIL %s:0:1\n" % (self.me, job))
                seen.bids += 1
        if said:
            self.socket.sendall(b"".join(said))

    def _told(
        self,
        verb: bytes,
        fields: bytes,
        said: list[bytes],
        seen: Seen,
        arrived_s: float,
        now_s: float,
    ) -> None:
        if verb == b"PERFORM":
            said.append(b"%s PERFORMING %s\n" % (self.me, fields.partition(b":")[0]))
            return
        job = fields.partition(b":")[2]
        if verb == b"HIRE":
            seen.hired += 1
            seen.lags_s.append(arrived_s - self.bids.pop(job))
            seen.unread_s.append(now_s - arrived_s)
            self.next_job = job
        elif job == self.job:
            seen.done += 1
            self.job = b""
        elif job == self.next_job:
            self.next_job = b""
        if self.next_job and not self.job:
            self.job, self.next_job = self.next_job, b""
            said.append(b"%s START %s\n" % (self.me, self.job))


def work(port: int, first: int, workers: int, seconds: float, told: Connection) -> None:
    """One process of workers. The warm-up is not counted."""
    bidders = {}
    poll = select.epoll()
    for number in range(first, first + workers):
        bidder = Bidder(port, number)
        bidders[bidder.socket.fileno()] = bidder
        poll.register(bidder.socket, select.EPOLLIN)
    ear = next(iter(bidders.values()))
    told.send(None)
    seen = Seen()
    begin_s = time.perf_counter() + WARM_S
    warm = True
    while (now_s := time.perf_counter()) < begin_s + seconds:
        if warm and now_s >= begin_s:
            warm = False
            seen = Seen()
        for descriptor, _ in poll.poll(0.1):
            bidder = bidders[descriptor]
            if bidder is ear:
                seen.announced += bidder.socket.recv(CHUNK_BYTES, socket.MSG_PEEK).count(b" ANNOUNCE ")
            bidder.heard(seen)
    told.send(seen)


def hand_in(port: int, jobs_per_s: int, seconds: float) -> tuple[int, float]:
    """Submit foreground jobs every 10 ms; returns how many ended after the warm-up, and how long a job took on
    average, by Little's law: the mean number of jobs in flight, divided by those that end in a second.
    """
    client = socket.create_connection(("127.0.0.1", port))
    client.setblocking(False)
    batch = round(jobs_per_s * BATCH_S)
    ended = ended_before = sent = 0
    in_flight: list[int] = []
    start_s = time.perf_counter()
    head = wire.response_head(wire.WORK_COMPLETE)
    due_s = start_s
    while due_s < start_s + WARM_S + seconds:
        packets = [
            wire.pack_request(wire.SUBMIT_JOB, b"t%d" % ((sent + number) % TYPES), b"", b"x")
            for number in range(batch)
        ]
        client.sendall(b"".join(packets))
        sent += batch
        due_s += BATCH_S
        while (left_s := due_s - time.perf_counter()) > 0:
            if select.select([client], [], [], left_s)[0]:
                ended += client.recv(CHUNK_BYTES).count(head)
        if due_s < start_s + WARM_S:
            ended_before = ended
        else:
            in_flight.append(sent - ended)
    client.close()
    ended -= ended_before
    return ended, statistics.fmean(in_flight) * seconds / max(ended, 1)


def bid(hall: HireHall, workers: int, jobs_per_s: int, seconds: float, processes: int) -> dict[str, float]:
    spawn = multiprocessing.get_context("spawn")
    children = []
    pipes = []
    for number in range(processes):
        pipe, their_pipe = spawn.Pipe()
        share = workers // processes
        arguments = (hall.hire_port, number * share, share, seconds, their_pipe)
        children.append(spawn.Process(target=work, args=arguments))
        pipes.append(pipe)
        children[-1].start()
    for pipe in pipes:
        pipe.recv()
    before_s = hall.cpu_s()
    ended, whole_s = hand_in(hall.port, jobs_per_s, seconds)
    cpu_s = (hall.cpu_s() - before_s) * seconds / (seconds + WARM_S)
    seen: list[Seen] = [pipe.recv() for pipe in pipes]
    for child in children:
        child.join()
    lags_s = sorted(lag_s for one in seen for lag_s in one.lags_s)
    announced = max(one.announced for one in seen)
    late_s = _percentiles(lags_s)
    unread_s = _percentiles(sorted(unread_s for one in seen for unread_s in one.unread_s))
    return {
        "announced": announced / seconds,
        "bids": sum(one.bids for one in seen) / seconds,
        "hired": sum(one.hired for one in seen) / seconds,
        "done": ended / seconds,
        "late p50 ms": 1000 * (late_s[49] - WINDOW_S),
        "late p99 ms": 1000 * (late_s[98] - WINDOW_S),
        "unread p99 ms": 1000 * unread_s[98],
        "whole ms": 1000 * whole_s,
        "cpu": 1e6 * cpu_s / max(announced, 1),
    }


def _percentiles(times_s: list[float]) -> list[float]:
    return statistics.quantiles(times_s, n=100) if len(times_s) > 1 else [float("nan")] * 99


@dataclass(frozen=True)
class Bidding:
    """Every worker hears every announcement, and bids for jobs of its types while it is free."""

    name: str = "hire"
    workers: int = 200
    jobs_per_s: int = 1000
    seconds: float = 10.0
    processes: int = 2
    """How many processes share the workers."""

    def run(self, stage: Stage) -> list[Row]:
        hall = HireHall(stage.folder / "hall", stage.python)
        figures = Figures(self.name)
        seconds = max(self.seconds * stage.scale, 2.0)
        for number in range(stage.rounds):
            stage.say(f"round {number + 1}: {self.workers} workers")
            with Running([hall]):
                figures.add_all(hall.name, bid(hall, self.workers, self.jobs_per_s, seconds, self.processes))
        late = [
            figures.row(f"late p{part} ms", "ms", title=f"bid to hire beyond the window, p{part}")
            for part in (50, 99)
        ]
        late[1].must(AT_MOST, 1000 * LATE_S_MAX)
        return [
            figures.row("announced", "announcements/s", title="announced").must(
                AT_LEAST, ANNOUNCED_MIN * self.jobs_per_s
            ),
            figures.row("bids", "bids/s", title="bids"),
            figures.row("hired", "hires/s", title="hired"),
            figures.row("done", "jobs/s", title="done"),
            *late,
            figures.row("unread p99 ms", "ms", title="HIRE until the load generator reads it, p99"),
            figures.row("whole ms", "ms", title="submit to result, mean"),
            figures.row("cpu", "us", title="CPU of an announcement"),
        ]


BIDDING = Section("Bidding", (Bidding(),), (Hall.name,))
