"""The blocking face: an event loop in its own thread, which runs coroutines for callers of any thread.

Invariant: the thread is a daemon and is stopped at the latest when the interpreter exits, so that a forgotten
`close()` neither hangs nor warns.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")
STOP_S: Final = 5.0
"""How long the thread may take to end."""


class LoopThread:
    """Started when it is made."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = asyncio.new_event_loop() if loop is None else loop
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """The result of the coroutine. After Ctrl-C, or any other exception here, it is cancelled."""
        if threading.current_thread() is self.thread:
            call.close()
            raise RuntimeError("a blocking call on the SDK's own event loop would wait for itself")
        answer = asyncio.run_coroutine_threadsafe(call, self.loop)
        try:
            return answer.result()
        except BaseException:
            answer.cancel()
            raise

    def start(self, call: Coroutine[Any, Any, object]) -> None:
        """Run the coroutine without waiting for it."""
        asyncio.run_coroutine_threadsafe(call, self.loop)

    def stop(self) -> None:
        """Cancel what runs, and end the thread."""
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(STOP_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()
