"""The blocking client, worker and result log. Safe to use from any thread.

    from hiringhall.peers.gearman_draft.blocking import Client, ResultLog, Worker

Invariant: there is no protocol code here; every call is a call of the asyncio class, on a loop in a thread.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman_draft import client, resultlog, worker
from hiringhall.peers.threads import Runner, SyncClient, blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from ssl import SSLContext

    from hiringhall.peers.gearman_draft.errors import ServerError
    from hiringhall.peers.gearman_draft.jobs import Job
    from hiringhall.peers.gearman_draft.worker import Function


class Client(SyncClient[client.Client]):
    """Submits jobs and asks for their status. The methods are those of the asyncio Client.

    >>> with Client(server, timeout_s=30) as client:
    ...     client.run("reverse", b"hello", priority="high")
    b'olleh'

    `timeout_s` limits each call; a longer one raises TimeoutError. A status listener is called in the client's
    own thread; a blocking call of this client from there raises RuntimeError.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        connect_timeout_s: float = 5.0,
        packet_bytes_max: int = wire.PACKET_BYTES_MAX,
        timeout_s: float | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        asynchronous = client.Client(
            servers, connect_timeout_s=connect_timeout_s, packet_bytes_max=packet_bytes_max, tls=tls
        )
        super().__init__(asynchronous, "gearman-draft", timeout_s)

    run = blocking(client.Client.run)
    submit = blocking(client.Client.submit)
    throw_away = blocking(client.Client.throw_away)
    status = blocking(client.Client.status)
    result = blocking(client.Client.result)
    wait = blocking(client.Client.wait)
    lost = blocking(client.Client.lost)
    resubmit = blocking(client.Client.resubmit)

    @property
    def jobs(self) -> list[Job]:
        """The remembered jobs, oldest first."""
        return self.asynchronous.jobs

    def remember(self, job: Job) -> None:
        """Remember a job from an earlier run of the application."""
        self._call_on_loop(lambda: self.asynchronous.remember(job))

    def forget(self, job: Job) -> None:
        self._call_on_loop(lambda: self.asynchronous.forget(job))


class ResultLog(SyncClient[resultlog.ResultLog]):
    """Reports tasks that ran elsewhere to a hall; see the asyncio ResultLog.

    >>> with ResultLog(server) as log:
    ...     start = log.register_start_task(("backup", "2026-11-16"))
    ...     end = log.register_task_result(("backup", "2026-11-16"), result=b"81 GB")
    >>> start == end
    True
    """

    def __init__(
        self,
        server: str,
        *,
        connect_timeout_s: float = 5.0,
        timeout_s: float | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        asynchronous = resultlog.ResultLog(server, connect_timeout_s=connect_timeout_s, tls=tls)
        super().__init__(asynchronous, "gearman-draft", timeout_s)

    register_start_task = blocking(resultlog.ResultLog.register_start_task)
    register_task_result = blocking(resultlog.ResultLog.register_task_result)


class Worker(Runner[worker.Worker]):
    """Does tasks until it is stopped. See the asyncio Worker for its arguments.

    >>> worker = Worker(server)
    >>> worker.can_do("shout", lambda task: task.args.upper())
    >>> with worker, Client(server) as client:
    ...     client.run("shout", b"hello")
    b'HELLO'

    `run` works in the calling thread, `with` in a separate one. For a clean end on SIGTERM:

        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        worker.run()
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        sleep_s: float = 30.0,
        answer_s: float = 10.0,
        connect_timeout_s: float = 5.0,
        retry_max_s: float = 10.0,
        packet_bytes_max: int = wire.PACKET_BYTES_MAX,
        on_error: Callable[[ServerError], None] | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        asynchronous = worker.Worker(
            servers,
            sleep_s=sleep_s,
            answer_s=answer_s,
            connect_timeout_s=connect_timeout_s,
            retry_max_s=retry_max_s,
            packet_bytes_max=packet_bytes_max,
            on_error=on_error,
            tls=tls,
        )
        super().__init__(asynchronous, "gearman-draft-worker")

    def can_do(self, name: str | bytes, function: Function) -> None:
        """Offer a function from now on."""
        self._call_soon(functools.partial(self.asynchronous.can_do, name, function))

    def cant_do(self, name: str | bytes) -> None:
        """Take no more tasks of this name."""
        self._call_soon(functools.partial(self.asynchronous.cant_do, name))

    def function(self, name: str | bytes) -> Callable[[Function], Function]:
        """Offer the decorated function."""

        def decorate(function: Function) -> Function:
            self.can_do(name, function)
            return function

        return decorate

    def run(self) -> None:
        """Work until `stop` is called from another thread or a signal handler, or until Ctrl-C."""
        self._run_until_interrupted()
