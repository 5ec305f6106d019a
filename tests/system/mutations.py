"""Packets that are almost right: seeded mutations of one valid packet of each kind.

Most leave the framing alone, so that a whole batch is read as packets; a batch ends with a magic that is
none, which the server has to answer and to close the connection for.
"""

from __future__ import annotations

import random
from struct import Struct
from typing import Final

from hiringhall.dialects.gearman import wire

_HEADER: Final = Struct(">4sII")
_JOBS_FROM: Final = 1 << 36
"""Where the numbers of the first boot's jobs start: handles made from here meet real jobs."""
END_OF_BATCH: Final = b"\0END\0\0\0\0\0\0\0\0"

LASTING: Final = frozenset(
    {
        wire.SUBMIT_JOB_BG,
        wire.SUBMIT_JOB_HIGH_BG,
        wire.SUBMIT_JOB_LOW_BG,
        wire.SUBMIT_JOB_SCHED,
        wire.SUBMIT_JOB_EPOCH,
        wire.SUBMIT_REDUCE_JOB_BACKGROUND,
    }
)
"""What such a submit leaves behind stays, and rightly so: a few of them are enough."""
_OTHERS_FOR_ONE: Final = 20

VALID: Final[tuple[tuple[int, bytes], ...]] = tuple(
    (kind, b"\0".join(args))
    for kind, *args in (
        (wire.CAN_DO, b"resize"),
        (wire.CANT_DO, b"resize"),
        (wire.RESET_ABILITIES,),
        (wire.PRE_SLEEP,),
        (wire.SUBMIT_JOB, b"resize", b"unique-1", b"payload of a job"),
        (wire.SUBMIT_JOB_HIGH, b"resize", b"", b"\0\0\0"),
        (wire.SUBMIT_JOB_LOW, b"index", b"-", b"the data is the key"),
        (wire.SUBMIT_JOB_BG, b"resize", b"unique-2", b"payload"),
        (wire.SUBMIT_JOB_HIGH_BG, b"mail", b"", b"payload"),
        (wire.SUBMIT_JOB_LOW_BG, b"index", b"-", b"payload"),
        (wire.SUBMIT_JOB_SCHED, b"resize", b"u", b"30", b"*", b"*", b"*", b"0", b"payload"),
        (wire.SUBMIT_JOB_EPOCH, b"resize", b"u", b"1893456000", b"payload"),
        (wire.SUBMIT_REDUCE_JOB, b"resize", b"u", b"reducer", b"payload"),
        (wire.SUBMIT_REDUCE_JOB_BACKGROUND, b"resize", b"u", b"reducer", b"payload"),
        (wire.GRAB_JOB,),
        (wire.GRAB_JOB_UNIQ,),
        (wire.GRAB_JOB_ALL,),
        (wire.WORK_STATUS, b"HANDLE", b"3", b"10"),
        (wire.WORK_COMPLETE, b"HANDLE", b"result"),
        (wire.WORK_FAIL, b"HANDLE"),
        (wire.WORK_EXCEPTION, b"HANDLE", b"it broke"),
        (wire.WORK_DATA, b"HANDLE", b"chunk"),
        (wire.WORK_WARNING, b"HANDLE", b"careful"),
        (wire.GET_STATUS, b"HANDLE"),
        (wire.GET_STATUS_UNIQUE, b"unique-1"),
        (wire.ECHO_REQ, b"anything"),
        (wire.OPTION_REQ, b"exceptions"),
        (wire.SET_CLIENT_ID, b"somebody"),
        (wire.CAN_DO_TIMEOUT, b"resize", b"30"),
        (wire.ALL_YOURS,),
    )
)


_DRAWN: Final = [packet for packet in VALID for _ in range(1 if packet[0] in LASTING else _OTHERS_FOR_ONE)]
_BYTES: Final = [bytes((byte,)) for byte in range(256)]


class Mutator:
    """An endless, repeatable source of batches."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def batch(self, count: int) -> bytes:
        """So many packets, and the end of the batch."""
        one = self._one
        return b"".join([one() for _ in range(count)]) + END_OF_BATCH

    def _one(self) -> bytes:
        bits = self._dice.getrandbits(
            64
        )  # one draw, taken apart: a million packets are made while somebody waits
        kind, body = _DRAWN[(bits & 0xFFFF) % len(_DRAWN)]
        way = (bits >> 16) & 0xF
        byte = (bits >> 20) & 0xFF
        at = (bits >> 28 & 0xFFFF) % (len(body) + 1)
        number = bits >> 44
        if body.startswith(b"HANDLE"):
            body = b"H:hall:%d" % (_JOBS_FROM + number % 2000) + body[6:]
        if way < 6:  # one byte is another
            body = body[:at] + _BYTES[byte] + body[at + 1 :]
        elif way < 8:  # the end is missing
            body = body[:at]
        elif way < 10:  # something is in between
            body = body[:at] + _BYTES[byte] * (number % 20) + body[at:]
        elif way < 12:  # an argument too few, or one too many
            body = body.replace(b"\0", b"" if byte & 1 else b"\0\0", 1)
        elif way < 14:  # another packet's body
            kind = number % 64
            if kind in LASTING:
                kind = wire.ECHO_REQ
        elif way < 15:  # nonsense of a known type
            body = self._dice.randbytes(number % 64)
        else:  # a type that nobody knows
            kind = bits >> 32
        return _HEADER.pack(wire.REQUEST, kind, len(body)) + body
