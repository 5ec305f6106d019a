"""A blocking face: what it does for other threads, and what it refuses to its own."""

from __future__ import annotations

import asyncio
import threading

import pytest

from hiringhall.peers.threads import SyncClient, blocking


class Clerk:
    """Answers, and calls back."""

    def __init__(self) -> None:
        self.face: SyncClient[Clerk]
        self.trouble: list[str] = []

    async def close(self) -> None:
        """There is nothing to leave."""

    async def answer(self) -> str:
        return "yes"

    async def call_back(self) -> None:
        """As a listener would that makes a blocking call of its own client."""
        for call in (lambda: self.face.wait_for(self.answer()), lambda: ask(self.face), self.face.close):
            try:
                call()
            except RuntimeError as error:
                self.trouble.append(str(error))


ask = blocking(Clerk.answer)


def test_a_blocking_call_from_its_own_thread_is_refused() -> None:
    """It would wait for itself, for ever and without its timeout."""
    clerk = Clerk()
    clerk.face = SyncClient(clerk, "clerk", 10.0)
    calling = threading.Thread(target=clerk.face.wait_for, args=(clerk.call_back(),), daemon=True)
    calling.start()
    calling.join(10)
    assert not calling.is_alive()
    assert len(clerk.trouble) == 3
    assert set(clerk.trouble) == {
        "a blocking call from the client's own thread would wait for itself: use another thread"
    }
    assert ask(clerk.face) == "yes", "from here it may be asked as before"
    clerk.face.close()


def test_a_call_within_another_loop_is_a_call_from_another_thread() -> None:
    async def story(face: SyncClient[Clerk]) -> str:
        return ask(face)

    with SyncClient(Clerk(), "clerk", 10.0) as face:
        assert asyncio.run(story(face)) == "yes"


def test_what_a_call_raises_is_raised() -> None:
    async def fail() -> None:
        raise KeyError("lost")

    with SyncClient(Clerk(), "clerk", 10.0) as face, pytest.raises(KeyError, match="lost"):
        face.wait_for(fail())
