"""Random and mutated frames at the native door, beside an honest client and worker who must not notice.

python tests/dialects/native/native_fuzz.py --frames 1000000 --seed 1
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hiringhall.core.limits import Limits
from hiringhall.dialects.native import wire
from hiringhall.dialects.native.context import NativeOptions
from stage.native import NativeGuest, NativeHall

KINDS: Final = tuple(
    value
    for name, value in vars(wire).items()
    if isinstance(value, str) and name.isupper() and not name.startswith("_")
)
FRAME_BYTES_MAX: Final = 1 << 16
LIMITS: Final = Limits(jobs_max=300, queues_max=30, ended_max=300, payload_bytes_max=4096, key_bytes_max=64)
BOMBS: Final = (
    b"\x91" * 60_000,  # arrays in arrays
    b"\x81\xa1a" * 20_000,  # maps in maps
    b"\x93\xa6submit\x01\xdd\xff\xff\xff\xff",  # an array of 4,294,967,295
    b"\x93\xa6submit\x01\xdf\xff\xff\xff\xff",  # a map of as many
    b"\x93\xa6finish\x01\x92\x01\xc6\xff\xff\xff\xff",  # 4 GiB of bytes
    b"\x93\xa3job\x01\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xff",  # an id beyond 63 bits
    b"\x93\xa4work\x01\x95\xc4\x00\xce\xff\xff\xff\xff\x90\x00\x00",  # four billion slots
)
HONEST_EVERY: Final = 500


class Fuzz:
    """A hall with hostile peers and two honest ones."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.hall = NativeHall(NativeOptions(frame_bytes_max=FRAME_BYTES_MAX), LIMITS)
        self.client = self._honest()
        self.worker = self._honest()
        self.worker.works(b"honest")
        self.hostile: list[NativeGuest] = []
        self.frames = 0
        self.closed = 0
        self._served = 0

    def run(self, frames: int) -> None:
        while self.frames < frames:
            self._say()
            if self.frames % HONEST_EVERY == 0:
                self._serve_honest()

    def _honest(self) -> NativeGuest:
        guest = self.hall.guest()
        guest.says(wire.HELLO, {"version": 1}, 1)
        return guest

    def _say(self) -> None:
        chance = self.chance
        while len(self.hostile) < 3:
            self.hostile.append(self._honest() if chance.random() < 0.9 else self.hall.guest())
        guest = chance.choice(self.hostile)
        data = b"".join(self._frame() for _ in range(chance.randint(1, 4)))
        cut = chance.randrange(len(data) + 1)
        guest.say_bytes(data[:cut], data[cut:])
        self.hall.end()
        if guest.closed or chance.random() < 0.01:
            self.closed += 1
            self.hostile.remove(guest)
            guest.leaves()

    def _frame(self) -> bytes:
        self.frames += 1
        chance = self.chance
        pick = chance.random()
        if pick < 0.02:
            body = chance.choice(BOMBS)
            return len(body).to_bytes(4, "big") + body
        if pick < 0.05:
            return chance.randbytes(chance.randint(1, 40))
        if pick < 0.1:
            body = chance.randbytes(chance.randint(0, 40))
            return len(body).to_bytes(4, "big") + body
        frame = wire.encode(chance.choice(KINDS), chance.choice((0, 1, 7, 1 << 62)), self._body())
        if pick < 0.5:
            return frame
        return self._mutated(frame, whole=pick < 0.9)

    def _mutated(self, frame: bytes, *, whole: bool) -> bytes:
        """With some bytes changed, added or taken away. `whole`: the length is right for what is left."""
        chance = self.chance
        body = bytearray(frame[4:])
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(body) + 1)
            if chance.random() < 0.6 and place < len(body):
                body[place] = chance.randrange(256)
            elif chance.random() < 0.5:
                body[place:place] = chance.randbytes(chance.randint(1, 4))
            else:
                del body[place : place + chance.randint(1, 4)]
        return (len(body).to_bytes(4, "big") if whole else frame[:4]) + bytes(body)

    def _body(self) -> Any:
        """A body as some kind requires it, or nearly."""
        chance = self.chance
        number = self._number
        terms = chance.choice(({"retries": 1}, {"flow": b"f"}))
        job = (b"q%d" % chance.randrange(3), b"p", terms, chance.choice((b"", b"k")), 0, [])
        return chance.choice(
            (
                None,
                {},
                [],
                (number(),),
                (number(), b"x"),
                (number(), number()),
                (number(), number(), number(), number()),
                (number(), b"x", True),
                (number(), 1, b"x", True),
                (number(), True),
                (b"q1",),
                (b"f",),
                (b"f", number()),
                (b"f", b"x"),
                {"text": b"f", "state": "running", "before": number()},
                (chance.randrange(3), [job] * chance.randint(0, 3)),
                (1, [job], True),
                (b"w", chance.randint(0, 4), [(b"q1", 0, 0), (b"q2", 0, 0)], -1, 0),
                {"version": 1},
                {"queue": b"q1", "count": number()},
                {"name": "n", "queue": b"q1", "payload": b"", "every_us": number()},
                "text",
                number(),
            )
        )

    def _number(self) -> int:
        scheduler = self.hall.scheduler
        chance = self.chance
        if scheduler.jobs and chance.random() < 0.5:
            return chance.choice(list(scheduler.jobs))
        return chance.choice((0, 1, 2, 3, 1000, -1, 1 << 31, 1 << 62, (1 << 63) - 1, (1 << 64) - 1))

    def _serve_honest(self) -> None:
        """A submit, its assignment and its end reach those whom they concern; the audit is clean."""
        self.hall.begin()
        for job in list(self.hall.scheduler.jobs.values()):
            self.hall.scheduler.cancel(job)  # makes room
        self.hall.settle()
        for guest in (self.client, self.worker, *self.hostile):
            guest.take_messages()
        self._served += 1
        key = b"honest %d" % self._served
        self.client.says_numbered(wire.SUBMIT, (1, [(b"honest", key, {}, key, 0, [])]))
        self.hall.settle()
        ((kind, _, body),) = self.worker.hears()
        assert (kind, body[3]) == (wire.ASSIGN, key), (kind, body)
        self.worker.says(wire.FINISH, (body[0], b"done " + key))
        self.hall.settle()
        ended = [frame for frame in self.client.hears() if frame[0] == wire.ENDED]
        assert [frame[2][3] for frame in ended] == [b"done " + key], ended


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started_s = time.monotonic()
    fuzz = Fuzz(options.seed)
    fuzz.run(options.frames)
    sys.stdout.write(
        f"{fuzz.frames:,} frames, {fuzz.closed:,} connections closed, {time.monotonic() - started_s:.0f} s: "
        "nothing raised, the audit is clean, and the honest peers were served\n"
    )


if __name__ == "__main__":
    main()
