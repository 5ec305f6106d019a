"""The blocking face: the same client, worker and result log for plain code. Safe to use from any thread.

    from hiringhall.peers.gearman_draft.blocking import Client, ResultLog, Worker

The law: it has no protocol of its own; every call is a call of the asyncio one, on a loop in a thread.
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
    """Submits jobs and asks about them; see the asyncio Client, whose methods these are.

    >>> with Client(server, timeout_s=30) as client:
    ...     client.run("reverse", b"hello", priority="high")
    b'olleh'

    `timeout_s` bounds each call; a call over it raises TimeoutError. What listens to a status is called in a
    thread of the client's, and makes no blocking call of this client: that raises RuntimeError.
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
        """The jobs that are remembered, the oldest first."""
        return self.asynchronous.jobs

    def remember(self, job: Job) -> None:
        """Remember a job from an earlier life of the application."""
        self._have_done(lambda: self.asynchronous.remember(job))

    def forget(self, job: Job) -> None:
        self._have_done(lambda: self.asynchronous.forget(job))


class ResultLog(SyncClient[resultlog.ResultLog]):
    """Tells a hall of tasks that ran elsewhere; see the asyncio ResultLog.

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
    """Does tasks until it is stopped; see the asyncio Worker for what its arguments mean.

    >>> worker = Worker(server)
    >>> worker.can_do("shout", lambda task: task.args.upper())
    >>> with worker, Client(server) as client:
    ...     client.run("shout", b"hello")
    b'HELLO'

    `run` does it in the calling thread, `with` in a thread beside. For a process that ends well on SIGTERM:

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
        """Be able to do a task, from now on."""
        self._tell(functools.partial(self.asynchronous.can_do, name, function))

    def cant_do(self, name: str | bytes) -> None:
        """Take no more tasks of a name."""
        self._tell(functools.partial(self.asynchronous.cant_do, name))

    def function(self, name: str | bytes) -> Callable[[Function], Function]:
        """Be able to do the decorated function."""

        def decorate(function: Function) -> Function:
            self.can_do(name, function)
            return function

        return decorate

    def run(self) -> None:
        """Work until `stop` is called, from another thread or a signal handler, or until Ctrl-C."""
        self._run_until_interrupted()
