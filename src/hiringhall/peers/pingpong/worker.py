"""The worker: one thread that pings while it waits and is silent while it works.

The law: when nothing came from the broker for N_TIMEOUTS periods of BROKER_TIMEOUT, one after the other, the
socket is closed, a new one is opened, and READY is its first word. A period counts when this worker has
listened through it: time in which it worked, or was stopped, is nobody's silence.
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

if TYPE_CHECKING:
    from types import TracebackType

Handler = Callable[[bytes], bytes | None]
"""Gets a job's payload, returns the bytes of its result (None: none). Raising JobFailed fails the job with the
code and the reason given; any other exception fails it with code 1 and the exception's text."""

LAST_WORDS_MS: Final = 500
"""How long a worker that stops waits for its last result to leave."""

log = logging.getLogger(__name__)


class Worker:
    """Does jobs, one at a time, until it is stopped.

        worker = Worker("127.0.0.1:5560", lambda job: job.upper())
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        worker.run()

    `run` does it in the calling thread, `with` in a thread beside.

    `ping_s` is the time between two PINGs; `broker_timeout_s` and `n_timeouts` are BROKER_TIMEOUT and
    N_TIMEOUTS. `identity` should be left out: ZeroMQ then makes one up for each connection, and the broker
    can tell a connection that was lost from one that is new.

    There is no word for "I leave": a job that the broker sends at the moment the worker stops is sent
    again after the door's job timeout, unless the broker notices first that nobody is there.
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
            raise ValueError("times are above nought, and there is at least one timeout")
        self._address = address
        self._handler = handler
        self._ping_s = ping_s
        self._broker_timeout_s = broker_timeout_s
        self._n_timeouts = n_timeouts
        self._identity = identity
        self._curve = curve
        self._stopping = threading.Event()
        self._bell: socket.socket | None = None
        """What `stop` rings to wake the thread that polls; set while it runs."""
        self._runner: threading.Thread | None = None

    def run(self) -> None:
        """Work until `stop` is called, from another thread or from a signal handler."""
        context: Context = zmq.Context()
        ear, bell = socket.socketpair()
        bell.setblocking(False)
        self._bell = bell
        try:
            while not self._stopping.is_set():
                dealer = open_dealer(context, self._address, self._curve, self._identity)
                try:
                    self._serve(dealer, ear)
                finally:
                    dealer.close(LAST_WORDS_MS if self._stopping.is_set() else 0)
        finally:
            self._bell = None
            bell.close()
            ear.close()
            context.term()

    def stop(self) -> None:
        """Take no more jobs; `run` returns when the one under way is done, or else at once."""
        self._stopping.set()
        bell = self._bell
        if bell is not None:
            with contextlib.suppress(OSError):  # it rings already, or `run` is about to return
                bell.send(b"!")

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

    def _serve(self, dealer: zmq.Socket[bytes], ear: socket.socket) -> None:
        """Be there for the broker; returns when it was silent for too long, or when this worker stops."""
        poller = zmq.Poller()
        poller.register(dealer, zmq.POLLIN)
        poller.register(ear, zmq.POLLIN)
        self._say(dealer, wire.READY)
        timeouts = 0
        now_s = time.monotonic()
        ping_due_s = now_s + self._ping_s
        period_ends_s = now_s + self._broker_timeout_s
        while not self._stopping.is_set():
            wait_s = min(ping_due_s, period_ends_s) - now_s
            poller.poll(max(0, math.ceil(wait_s * 1000)))
            heard = self._listen(dealer)
            now_s = time.monotonic()
            if heard:
                timeouts = 0
                period_ends_s = now_s + self._broker_timeout_s
            elif now_s >= period_ends_s:
                timeouts += 1
                if timeouts == self._n_timeouts:
                    log.warning("%s: no word from the broker, connecting anew", self._address)
                    return
                period_ends_s = now_s + self._broker_timeout_s
            if now_s >= ping_due_s:
                self._say(dealer, wire.PING)
                ping_due_s = now_s + self._ping_s

    def _listen(self, dealer: zmq.Socket[bytes]) -> bool:
        """Take in all that has come, and do what is a job; says whether anything came."""
        heard = False
        while not self._stopping.is_set():
            try:
                frames = dealer.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            heard = True
            if len(frames) != 2 or frames[0]:
                log.warning("%s: a message of %d frames is not of this protocol", self._address, len(frames))
            elif frames[1] != wire.PONG:
                self._say(dealer, self._work(frames[1]))
        return heard

    def _work(self, payload: bytes) -> bytes:
        """What to answer. A job that fails is answered too: given back, it would come again and again."""
        try:
            result = _as_result(self._handler(payload))
        except JobFailed as failure:
            return wire.pack_error(b"%d" % failure.code, failure.reason)
        except Exception as error:  # noqa: BLE001 (a handler may raise anything, and its client is told)
            log_failure(log, f"{self._address}: a job", error)
            return wire.pack_error(b"1", describe(error).encode())
        return result

    def _say(self, dealer: zmq.Socket[bytes], body: bytes) -> None:
        try:
            dealer.send_multipart([b"", body], zmq.NOBLOCK)
        except zmq.Again:
            # As many messages wait as ZeroMQ keeps. A job whose result is lost here is sent again.
            log.warning("%s: the broker takes nothing in", self._address)


def _as_result(value: object) -> bytes:
    """What a handler returned, as bytes that can be said; all else is its mistake, and its job's failure."""
    if value is None:
        return b""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"a handler returns bytes or None, not {type(value).__name__}")
    result = bytes(value)
    if result in (wire.READY, wire.PING):
        raise ValueError(f"the result {result.decode()} would be taken for the worker's own word")
    return result
