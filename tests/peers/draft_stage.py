"""A client of the draft among puppets, and the first steps that many stories begin with."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from draft_puppet import DraftPuppet

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman_draft import Client, Job

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from draft_puppet import DraftLine

    Story = Callable[[Client, list[DraftPuppet]], Coroutine[Any, Any, None]]


def first(servers: Sequence[str]) -> str:
    """In place of chance: the first of those that may be chosen."""
    return servers[0]


def play(story: Story, servers: int = 1) -> None:
    """A client of so many servers; where there is a choice it takes the first."""

    async def stage() -> None:
        async with asyncio.timeout(20), AsyncExitStack() as stack:
            puppets = [await stack.enter_async_context(DraftPuppet()) for _ in range(servers)]
            client = Client([puppet.address for puppet in puppets], choose=first)
            await stack.enter_async_context(client)
            await story(client, puppets)

    asyncio.run(stage())


async def submitted(
    client: Client, line: DraftLine | None, puppet: DraftPuppet, name: str, handle: bytes
) -> tuple[Job, DraftLine]:
    """A job that a puppet has taken in under a handle, and the connection that it came by."""
    submit = asyncio.create_task(client.submit(name))
    line = line or await puppet.line()
    await line.expect(("job_create_req", name.encode() + b"\0\0\x00\x01"))
    line.say(wire.pack_job_create_res(handle))
    return await submit, line
