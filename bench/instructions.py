"""How many instructions a job takes in user space: the same on a busy machine as on a quiet one.

    python bench/instructions.py                     the hall of this environment
    python bench/instructions.py BEFORE [AFTER]      two builds; AFTER is this interpreter unless named

A hall in memory, without sockets and disk, does jobs under `valgrind --tool=callgrind`, once with few rounds
and once with many: the difference is what the jobs take. It includes what this script does for them, which is
the same for every build. System calls, SQLite, and what the memory of a machine costs, are not seen: those are
what `make bench` measures.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

ROOT: Final = Path(__file__).resolve().parents[1]
QUEUE: Final = b"slap"
DEPTH: Final = 64
"""The jobs of a round."""
WORKERS: Final = 4
DWORK_WORKERS: Final = 8
CREATED_AT_ONCE: Final = 16
BIDDERS: Final = 200
TYPES: Final = 20
ANNOUNCED_AT_ONCE: Final = 8
FEW: Final = 20
MANY: Final = 60
PAYLOAD: Final = b"x" * 32
TURN_US: Final = 50
KINDS: Final = {
    "foreground": "foreground jobs",
    "background": "background jobs, with what the store is told",
    "running_max": "foreground jobs of a queue with running_max",
    "all rules": "foreground jobs of a queue with all rules",
    "dwork": "dwork tasks, 16 a Create and one a Steal, with what the store is told",
    "dwork in memory": "the same, in memory",
    "dwork 16": "dwork tasks, 16 a Create and 16 a Steal, with what the store is told",
    "dwork 16 in memory": "the same, in memory",
    "dwork create": "dwork tasks that are created and not stolen, 16 a Create, with what the store is told",
    "dwork create in memory": "the same, in memory",
    "bidding": "jobs that are announced to 200 workers, of which 20 bid",
}

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from stage.gearman import GearmanGuest
    from stage.guest import Guest
    from stage.hall import Hall


class Play:
    """The jobs of a kind in a hall in memory."""

    def __init__(self, hall: Hall) -> None:
        self.hall = hall
        self._now_us = hall.now_us

    def round(self) -> None:
        """DEPTH jobs."""
        raise AssertionError("a kind of jobs must override round")

    def _turn(self, *said: tuple[Guest, bytes]) -> None:
        """One turn. What it commits is on disk in the next one."""
        engine, requests = self.hall.engine, self.hall.requests
        self._now_us += TURN_US
        engine.begin(self._now_us)
        for guest, data in said:
            guest.session.receive(data)
        engine.end()
        if requests.under_way() is not None:
            requests.take_batch()
            self._now_us += TURN_US
            engine.begin(self._now_us)
            engine.committed()
            engine.end()

    def _wait(self) -> None:
        """Until the next deadline."""
        self._now_us = max(self._now_us, self.hall.engine.next_deadline())


class GearmanPlay(Play):
    """One client and four workers."""

    def __init__(self, kind: str) -> None:
        from hiringhall.dialects.gearman import wire  # noqa: PLC0415
        from stage.gearman import GearmanHall  # noqa: PLC0415 (only under valgrind)

        hall = GearmanHall()
        super().__init__(hall)
        self._wire = wire
        self._submit = wire.SUBMIT_JOB_BG if kind == "background" else wire.SUBMIT_JOB
        self._submits = 0
        self._rule(kind)
        self._client = hall.guest()
        self._workers = [hall.guest() for _ in range(WORKERS)]
        for worker in self._workers:
            self._turn((worker, wire.pack_request(wire.CAN_DO, QUEUE) + wire.pack_request(wire.PRE_SLEEP)))

    def _rule(self, kind: str) -> None:
        """Limits that are never reached."""
        if kind in ("running_max", "all rules"):
            from hiringhall.core.rules.queue_rules import QueueRules  # noqa: PLC0415 (older builds have none)

            most = 100_000
            every = QueueRules(most, most, 1000 * 1_000_000, most, fair=True)
            rules = QueueRules(running_max=most) if kind == "running_max" else every
            self.hall.scheduler.ruled_queues.rule(QUEUE, rules)

    def round(self) -> None:
        """The client submits, and the workers do it all."""
        wire = self._wire
        grab, sleep = wire.pack_request(wire.GRAB_JOB), wire.pack_request(wire.PRE_SLEEP)
        self._turn((self._client, b"".join([self._next_submit() for _ in range(DEPTH)])))
        said = dict.fromkeys(self._workers, grab)
        while said:
            self._turn(*said.items())
            for worker in list(said):
                handle = self._assigned(worker)
                if handle:
                    said[worker] = wire.pack_request(wire.WORK_COMPLETE, handle, PAYLOAD) + grab
                else:
                    del said[worker]
                    self._turn((worker, sleep))
        self._client.take_messages()

    def _next_submit(self) -> bytes:
        self._submits += 1
        return self._wire.pack_request(self._submit, QUEUE, b"%d" % self._submits, PAYLOAD)

    def _assigned(self, worker: GearmanGuest) -> bytes:
        """The handle of the job that a worker was sent; empty: none."""
        for message in worker.take_messages():
            if int.from_bytes(message[4:8], "big") == self._wire.JOB_ASSIGN:
                return message[12:].partition(b"\0")[0]
        return b""


class DworkPlay(Play):
    """One producer and eight workers. What they say is written here, not by the build."""

    def __init__(self, kind: str) -> None:
        from hiringhall.dialects.dwork.context import DworkOptions  # noqa: PLC0415
        from stage.dwork import DworkHall  # noqa: PLC0415 (only under valgrind)

        hall = DworkHall(DworkOptions(durable="in memory" not in kind, keep_open=True))
        super().__init__(hall)
        self._stolen_at_once = 16 if "16" in kind else 1
        self._steals = "create" not in kind
        self._created = 0
        self._producer = hall.guest()
        self._workers = {hall.guest(): _field(6, b"w%d" % number) for number in range(DWORK_WORKERS)}

    def round(self) -> None:
        for _ in range(DEPTH // CREATED_AT_ONCE):
            tasks = [self._next_task() for _ in range(CREATED_AT_ONCE)]
            self._ask({self._producer: b"\x08\x00" + b"".join(tasks)})
        if not self._steals:
            return
        stealing = {
            worker: b"\x08\x01\x20%c%b" % (self._stolen_at_once, location)
            for worker, location in self._workers.items()
        }
        while stealing:
            stolen = {worker: re.findall(rb"t\d{8}", said) for worker, said in self._ask(stealing).items()}
            stealing = {worker: stealing[worker] for worker, names in stolen.items() if names}
            self._ask({worker: self._complete(worker, stolen[worker]) for worker in stealing})

    def _next_task(self) -> bytes:
        self._created += 1
        return _field(2, _field(1, b"t%08d" % self._created) + _field(2, b"o"))

    def _complete(self, worker: Guest, names: list[bytes]) -> bytes:
        tasks = [_field(2, _field(1, name) + _field(2, b"o")) for name in names]
        return b"\x08\x02" + b"".join(tasks) + self._workers[worker]

    def _ask(self, said: dict[Guest, bytes]) -> dict[Guest, bytes]:
        """All at once; the answers."""
        self._turn(*said.items())
        answers: dict[Guest, bytes] = {}
        while True:
            for guest in said:
                for message in guest.take_messages():
                    answers[guest] = message
                    guest.session.delivered += 1
            if len(answers) == len(said):
                return answers
            self._wait()
            self._turn()


def _field(number: int, text: bytes) -> bytes:
    """A field of a dwork message, with at most 127 bytes."""
    return b"%c%c%b" % (number << 3 | 2, len(text), text)


class BiddingPlay(Play):
    """Each job is announced to all workers; those that know its type bid. They drop what they are sent."""

    def __init__(self) -> None:
        from hiringhall.core.bidding.markets import Rules  # noqa: PLC0415
        from hiringhall.core.bidding.policies import soonest  # noqa: PLC0415
        from hiringhall.core.jobs import JobSpec  # noqa: PLC0415
        from hiringhall.core.leases import CALLED, HIRED  # noqa: PLC0415
        from hiringhall.dialects.session import Link  # noqa: PLC0415
        from stage.hire import HireHall  # noqa: PLC0415 (only under valgrind)

        class Deaf(Link):
            def write(self, messages: list[bytes]) -> None:
                pass

        hall = HireHall()
        super().__init__(hall)
        self._client = hall.client
        self._spec = JobSpec
        self._verbs = {HIRED: b"START", CALLED: b"PERFORMING"}
        context = hall.door(rules=Rules(soonest, window_us=50_000, perform_us=20_000))
        self._name = context.hire_bus.names.job
        names = [str(uuid.UUID(int=number + 1)).encode() for number in range(BIDDERS)]
        self._bidders = {name: hall.guest(context) for name in names}
        for guest in self._bidders.values():
            guest.session.link = Deaf()
        self._submits = 0

    def round(self) -> None:
        jobs: list[Job] = []
        for _ in range(DEPTH // ANNOUNCED_AT_ONCE):
            announced = self._announce()
            jobs += announced
            self._turn(*self._bids(announced))
        while jobs:
            self._wait()
            self._turn(*self._reports(jobs))
            jobs = [job for job in jobs if not job.ended]

    def _announce(self) -> list[Job]:
        self._now_us += TURN_US
        self.hall.engine.begin(self._now_us)
        jobs = []
        for _ in range(ANNOUNCED_AT_ONCE):
            self._submits += 1
            spec = self._spec(b"t%d" % (self._submits % TYPES), PAYLOAD)
            jobs.append(self.hall.scheduler.submit(spec, self._client))
        self.hall.engine.end()
        return jobs

    def _bids(self, jobs: list[Job]) -> list[tuple[Guest, bytes]]:
        """Each worker knows two types."""
        names = {job.queue.name: self._name(job.id) for job in jobs}
        return [
            (guest, b"%b AVAIL %b:0:1\n" % (me, names[known]))
            for number, (me, guest) in enumerate(self._bidders.items())
            for known in (b"t%d" % (number % TYPES), b"t%d" % ((number * 7 + 3) % TYPES))
            if known in names
        ]

    def _reports(self, jobs: list[Job]) -> list[tuple[Guest, bytes]]:
        """What the hired workers say next."""
        said = []
        for job in jobs:
            if job.lease is not None and job.lease.stage in self._verbs:
                me, verb = job.lease.worker.name, self._verbs[job.lease.stage]
                said.append((self._bidders[me], b"%b %b %b\n" % (me, verb, self._name(job.id))))
        return said


def player(kind: str) -> Play:
    if kind == "bidding":
        return BiddingPlay()
    return DworkPlay(kind) if kind.startswith("dwork") else GearmanPlay(kind)


def play(kind: str, rounds: int) -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    jobs = player(kind)
    for _ in range(rounds):
        jobs.round()


def counted(python: str, kind: str, rounds: int) -> int:
    """The instructions of a process that plays so many rounds."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", python, __file__]
    ended = subprocess.run(
        [*command, "--play", kind, str(rounds)],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"Collected : (\d+)", ended.stderr)
    if ended.returncode or found is None:
        raise SystemExit(f"{python} cannot be counted:\n{ended.stderr[-2000:]}")
    return int(found[1])


def instructions(python: str, kind: str) -> int:
    """The instructions of one job."""
    return (counted(python, kind, MANY) - counted(python, kind, FEW)) // ((MANY - FEW) * DEPTH)


def main() -> int:
    parser = argparse.ArgumentParser(description="Count the instructions of a job, with valgrind.")
    parser.add_argument("builds", nargs="*", metavar="PYTHON", help="the interpreters of one or two builds")
    parser.add_argument("--only", action="append", choices=KINDS, help="one kind of jobs; may be repeated")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each kind")
    parser.add_argument("--play", nargs=2, metavar=("KIND", "ROUNDS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        play(options.play[0], int(options.play[1]))
        return 0
    builds = options.builds or [sys.executable]
    builds += [sys.executable] if len(options.builds) == 1 else []
    for kind in options.only or KINDS:
        found = [instructions(python, kind) for python in builds]
        if options.json:
            print(json.dumps({"kind": kind, "instructions": found}))
        else:
            ratio = f", {found[-1] / found[0]:.3f} times" if len(found) > 1 else ""
            print(f"{KINDS[kind]}: {' and '.join(f'{each:,}' for each in found)} instructions{ratio}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
