"""The functions that the hall's workers run."""

from __future__ import annotations

import asyncio

from hiringhall import Hall

hall = Hall()


@hall.job
def add(a: int, b: int) -> int:
    return a + b


@hall.job
async def nap(a: int, b: int) -> int:
    await asyncio.sleep(0.01)
    return a + b


FUNCTIONS = {"add": add, "nap": nap}
