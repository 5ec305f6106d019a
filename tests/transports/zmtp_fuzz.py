"""Mutated ZMTP streams against the hall's side of a connection, without sockets.

    PYTHONPATH=src python tests/transports/zmtp_fuzz.py 1000000 [FIRST_SEED]

Each stream is fed whole and cut up: both must give the same, nothing but a refusal may come of it, and no more
may be kept than the limits say.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Final

from zmtp_wire import OLD_GREETING, HallSide, command, frame, greeting, message, ready

from hiringhall.transports.zmtp.curve import CurveKeys
from hiringhall.transports.zmtp.frames import ENVELOPE_BYTES_MAX

BYTES_MAX: Final = 1000
_KEYS: Final = CurveKeys(b"D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs", frozenset())
_OPENINGS: Final = (
    greeting() + ready(b"ann"),
    greeting(0) + ready(),
    OLD_GREETING + frame(b"bob"),
    greeting(mechanism=b"CURVE") + frame(b"\x05HELLO\x01\x00".ljust(200, b"\x07"), 4),
)
_TRAFFIC: Final = (
    message(b"", b"hello"),
    message(b"hello"),
    message(b"a", b"b", b"", b"c" * 300),
    message(*[b"x"] * 70),
    command(b"PING", b"\0\x64context"),
    command(b"SUBSCRIBE", b"topic"),
    frame(b"l" * 900),
    frame(b"s", long=True),
)


def stream(dice: random.Random) -> bytes:
    """Almost what a peer could say."""
    opening = dice.choice(_OPENINGS)
    said = opening + b"".join(dice.choices(_TRAFFIC, k=dice.randrange(6)))
    for _ in range(dice.randrange(4)):
        at = dice.randrange(len(said)) if dice.randrange(3) else min(len(opening), len(said) - 1)
        way = dice.randrange(5)
        if way == 0:
            said = said[:at] + dice.randbytes(1) + said[at + 1 :]
        elif way == 1:
            said = said[:at] + dice.randbytes(dice.randrange(1, 10)) + said[at:]
        elif way == 2:
            said = said[:at] + said[at + dice.randrange(1, 10) :]
        elif way == 3:
            said = said[:at] + dice.choice((b"\0", b"\xff")) * dice.randrange(1, 9) + said[at + 1 :]
        else:
            said = said[:at] + dice.choice(_TRAFFIC) + said[at:]
        if not said:
            return b"\xff"
    return said


def play(seed: int) -> bool:
    """Play one stream; whether its peer was let in."""
    dice = random.Random(seed)
    said = stream(dice)
    keys = _KEYS if dice.randrange(8) == 0 else None
    whole, cut = HallSide(BYTES_MAX, keys), HallSide(BYTES_MAX, keys)
    whole.feed(said)
    at = 0
    while at < len(said):
        step = dice.choice((1, 1, 2, 9, 64, 300))
        cut.feed(said[at : at + step])
        at += step
    same = (whole.heard, whole.refused, whole.identity) == (cut.heard, cut.refused, cut.identity)
    assert same, f"seed {seed}: {whole.heard} {whole.refused!r}, cut up {cut.heard} {cut.refused!r}"
    assert cut.kept_bytes_max <= BYTES_MAX + ENVELOPE_BYTES_MAX, f"seed {seed} keeps {cut.kept_bytes_max}"
    return whole.identity is not None


def main() -> None:
    count = int(sys.argv[1])
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    started_s = time.monotonic()
    inside = 0
    for seed in range(first, first + count):
        inside += play(seed)
    took_s = time.monotonic() - started_s
    sys.stdout.write(
        f"{count} streams, {inside} let in, {took_s:.0f} s: all read the same, none broke a limit\n"
    )


if __name__ == "__main__":
    main()
