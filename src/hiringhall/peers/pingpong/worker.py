"""The worker: one thread that sends PING while it waits and nothing while it works.

Invariant: if nothing came from the broker for N_TIMEOUTS consecutive periods of BROKER_TIMEOUT, the socket is
closed, a new one is opened, and READY is its first message. Only periods in which this worker has listened
count, not the time in which it worked or was stopped.
"""

from __future__ import annotations

import contextlib
import logging
import math
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self

import zmq

from hiringhall.dialects.pingpong import wire
from hiringhall.peers.failures import describe, log_failure
from hiringhall.peers.pingpong.errors import JobFailed
from hiringhall.peers.pingpong.sockets import Context, Curve, open_dealer
from hiringhall.peers.results import as_result

if TYPE_CHECKING:
    from types import TracebackType

Handler = Callable[[bytes], bytes | None]
"""Gets a job's payload, returns the bytes of its result (None: none). Raising JobFailed fails the job with the
code and the reason given; any other exception fails it with code 1 and the exception's text."""

LINGER_MS: Final = 500
"""How long a worker that stops waits until its last result is sent."""

log = logging.getLogger(__name__)


class Worker:
    """Does jobs, one at a time, until it is stopped.

        worker = Worker("127.0.0.1:5560", lambda job: job.upper())
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        worker.run()

    `run` works in the calling thread, `with` in a separate one.

    `ping_s` is the time between two PINGs; `broker_timeout_s` and `n_timeouts` are BROKER_TIMEOUT and
    N_TIMEOUTS. Leave `identity` empty: then ZeroMQ creates one for each connection, and the broker can
    distinguish a new connection from a lost one.

    The protocol has no message for leaving. A job that the broker sends at the moment when the worker stops is
    sent again after the door's job timeout, unless the broker notices earlier that the worker is gone.
    """

    def __init__(
        self,
        address: str,
        handler: Handler,
        *,
        ping_s: float = 1.0,
        broker_timeout_s: float = 2.0,
        n_timeouts: int = 3,
        identity: bytes = b"",
        curve: Curve | None = None,
    ) -> None:
        if min(ping_s, broker_timeout_s) <= 0 or n_timeouts < 1:
            raise ValueError("ping_s and broker_timeout_s must be above 0, and n_timeouts at least 1")
        self._address = address
        self._handler = handler
        self._ping_s = ping_s
        self._broker_timeout_s = broker_timeout_s
        self._n_timeouts = n_timeouts
        self._identity = identity
        self._curve = curve
        self._stopping = threading.Event()
        self._waker: socket.socket | None = None
        """`stop` writes to it to wake the polling thread; set while it runs."""
        self._runner: threading.Thread | None = None

    def run(self) -> None:
        """Work until `stop` is called, from another thread or from a signal handler."""
        context: Context = zmq.Context()
        wake_socket, waker = socket.socketpair()
        waker.setblocking(False)
        self._waker = waker
        try:
            while not self._stopping.is_set():
                dealer = open_dealer(context, self._address, self._curve, self._identity)
                try:
                    self._serve(dealer, wake_socket)
                finally:
                    dealer.close(LINGER_MS if self._stopping.is_set() else 0)
        finally:
            self._waker = None
            waker.close()
            wake_socket.close()
            context.term()

    def stop(self) -> None:
        """Take no more jobs; `run` returns when the running one is done, or else at once."""
        self._stopping.set()
        waker = self._waker
        if waker is not None:
            with contextlib.suppress(OSError):  # a wake-up is already pending, or `run` is about to return
                waker.send(b"!")

    def __enter__(self) -> Self:
        self._runner = threading.Thread(target=self.run, name="pingpong-worker", daemon=True)
        self._runner.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        assert self._runner is not None
        self._runner.join()

    def _serve(self, dealer: zmq.Socket[bytes], wake_socket: socket.socket) -> None:
        """Work on one connection. Return if the broker was silent for too long, or if this worker stops."""
        poller = zmq.Poller()
        poller.register(dealer, zmq.POLLIN)
        poller.register(wake_socket, zmq.POLLIN)
        self._send(dealer, wire.READY)
        timeouts = 0
        now_s = time.monotonic()
        ping_due_s = now_s + self._ping_s
        period_ends_s = now_s + self._broker_timeout_s
        while not self._stopping.is_set():
            wait_s = min(ping_due_s, period_ends_s) - now_s
            poller.poll(max(0, math.ceil(wait_s * 1000)))
            received = self._listen(dealer)
            now_s = time.monotonic()
            if received:
                timeouts = 0
                period_ends_s = now_s + self._broker_timeout_s
            elif now_s >= period_ends_s:
                timeouts += 1
                if timeouts == self._n_timeouts:
                    log.warning("%s: no message from the broker, reconnecting", self._address)
                    return
                period_ends_s = now_s + self._broker_timeout_s
            if now_s >= ping_due_s:
                self._send(dealer, wire.PING)
                ping_due_s = now_s + self._ping_s

    def _listen(self, dealer: zmq.Socket[bytes]) -> bool:
        """Handle all messages that have come, and do the jobs. Return whether anything came."""
        received = False
        while not self._stopping.is_set():
            try:
                frames = dealer.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            received = True
            if len(frames) != 2 or frames[0]:
                log.warning("%s: ignored a malformed message of %d frames", self._address, len(frames))
            elif frames[1] != wire.PONG:
                self._send(dealer, self._work(frames[1]))
        return received

    def _work(self, payload: bytes) -> bytes:
        """The answer to a job. A failed job is answered too; otherwise it would be sent again and again."""
        try:
            result = _sendable(self._handler(payload))
        except JobFailed as failure:
            return wire.pack_error(b"%d" % failure.code, failure.reason)
        except Exception as error:  # noqa: BLE001 (a handler may raise anything, and its client gets it)
            log_failure(log, f"{self._address}: a job", error)
            return wire.pack_error(b"1", describe(error).encode())
        return result

    def _send(self, dealer: zmq.Socket[bytes], body: bytes) -> None:
        try:
            dealer.send_multipart([b"", body], zmq.NOBLOCK)
        except zmq.Again:
            # ZeroMQ's queue is full. A job whose result is lost here is sent again.
            log.warning("%s: the broker does not read; a message was dropped", self._address)


def _sendable(value: object) -> bytes:
    """The result of a handler as bytes that can be sent. Anything else is its error, and fails the job."""
    result = as_result(value)
    if result in (wire.READY, wire.PING):
        raise ValueError(f"the result {result.decode()} is not allowed: the broker would read it as a command")
    return result
