"""What the supervisor itself reports about a job: kinds, codes and texts."""

from __future__ import annotations

from typing import Final

import msgspec

from hiringhall.sdk.failures import Failure

RENEW: Final = "renew"
LOSE: Final = "lose"

EXCEPTION: Final = 1
BAD_ARGUMENTS: Final = 2
BAD_RESULT: Final = 3
SYSTEM_EXIT: Final = 4
OVER_MEMORY: Final = 137
"""Codes of failures. 137 is also the exit code of a process that the kernel has killed for its memory."""

GRACE: Final = "the worker ended before the job"
"""Why a process was killed: its jobs are given back without a loss."""
MEMORY: Final = "memory: "
"""How the reason begins when a process was killed for its memory."""

_MIB: Final = 1 << 20


def failure(kind: str, text: str) -> bytes:
    """The data of a failure that is not an exception of the function."""
    return msgspec.json.encode(Failure(kind, text))


def memory_text(used: int, limit: int) -> str:
    return f"{MEMORY}the worker's process used {used // _MIB} MiB of {limit // _MIB} MiB (--memory-max)"


def over_memory(reason: str) -> tuple[int, bytes, bool]:
    """Code, data, and whether it is retried as its terms say."""
    return OVER_MEMORY, failure("MemoryError", reason.removeprefix(MEMORY)), True


def too_large(size: int, limit: int) -> tuple[int, bytes, bool]:
    """For a result that the hall does not take."""
    text = f"the result has {size} bytes, and the hall takes {limit} (payload_bytes_max)"
    return BAD_RESULT, failure("ResultTooLarge", text), False
