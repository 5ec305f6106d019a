"""The blocking face without a task: a caller waits for a reply that is set on the loop."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from hiringhall import Hall
from hiringhall.sdk.errors import HallUnreachable
from hiringhall.sdk.loop_thread import LoopThread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiringhall.sdk.loop_thread import Reply


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread("test")
    yield thread
    thread.stop()


def test_the_caller_gets_what_the_reply_is_set_to_at_once_or_later(thread: LoopThread) -> None:
    def later(reply: Reply[int]) -> None:
        thread.loop.call_soon(reply.set_result, 2)

    assert thread.ask(lambda reply: reply.set_result(1)) == 1
    assert thread.ask(later) == 2


def test_the_first_value_of_a_reply_counts(thread: LoopThread) -> None:
    def twice(reply: Reply[int]) -> None:
        assert not reply.done()
        reply.set_result(1)
        assert reply.done()
        reply.set_result(2)
        reply.set_exception(ValueError("late"))

    assert thread.ask(twice) == 1


def test_an_error_of_the_action_or_of_the_reply_reaches_the_caller(thread: LoopThread) -> None:
    def fail(_: Reply[Any]) -> None:
        raise ValueError("in the action")

    with pytest.raises(ValueError, match="in the action"):
        thread.ask(fail)
    with pytest.raises(ValueError, match="in the reply"):
        thread.ask(lambda reply: reply.set_exception(ValueError("in the reply")))


def test_a_stop_ends_the_wait_of_every_caller(thread: LoopThread) -> None:
    begun = threading.Semaphore(0)
    errors: list[Exception] = []

    def ask() -> None:
        try:
            thread.ask(lambda _: begun.release())
        except HallUnreachable as error:
            errors.append(error)

    callers = [threading.Thread(target=ask) for _ in range(3)]
    for caller in callers:
        caller.start()
    for _ in callers:
        assert begun.acquire(timeout=20)
    thread.stop()
    for caller in callers:
        caller.join(20)
    assert len(errors) == len(callers)
    with pytest.raises(HallUnreachable):
        thread.ask(lambda reply: reply.set_result(1))


def test_on_the_loop_itself_nobody_can_wait(thread: LoopThread) -> None:
    def ask_again(_: Reply[int]) -> None:
        thread.ask(lambda reply: reply.set_result(1))

    with pytest.raises(RuntimeError, match="would wait for itself"):
        thread.ask(ask_again)


def test_ctrl_c_ends_the_wait_and_a_later_value_is_ignored(thread: LoopThread) -> None:
    kept: list[Reply[int]] = []

    def interrupt(reply: Reply[int]) -> None:
        kept.append(reply)
        thread.loop.call_later(0.1, os.kill, os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        thread.ask(interrupt)
    assert thread.ask(lambda reply: reply.set_result(1)) == 1
    thread.loop.call_soon_threadsafe(kept[0].set_result, 2)
    assert thread.ask(lambda reply: reply.set_result(3)) == 3


def test_a_blocking_submit_to_a_url_that_is_none_says_so() -> None:
    with Hall("nonsense://here") as hall, pytest.raises(ValueError, match="nonsense"):
        hall.function("f").submit()
