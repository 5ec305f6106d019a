"""The client: submits jobs to the frontend and waits for their results, one or many at a time.

Invariant: each attempt has its own request id, which the hall sends back with the answer. So no answer is
matched to another request, and an answer that comes too late is ignored.
"""

from __future__ import annotations

import math
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Self

import zmq

from hiringhall.dialects.pingpong import wire
from hiringhall.peers.pingpong.errors import JobCancelled, JobFailed, NoAnswer, PingPongError, Refused
from hiringhall.peers.pingpong.sockets import Context, Curve, open_dealer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

OUTSTANDING_MAX: Final = 500
"""How many requests `map` keeps open; ZeroMQ queues a thousand while the hall is away."""


class Request:
    """A submitted job and its outcome."""

    def __init__(self, client: Client, payload: bytes) -> None:
        self.payload = payload
        self.tries = 0
        """How often it was sent."""
        self.try_id = b""
        """The request id of the latest attempt."""
        self._client = client
        self._answer: bytes | None = None
        self._error: PingPongError | None = None

    @property
    def answered(self) -> bool:
        """Whether `result` would return, or raise, at once."""
        return self._answer is not None or self._error is not None

    def result(self) -> bytes:
        """Wait for the result. Raises for a failed job; see `errors`."""
        self._client.wait(self)
        if self._error is not None:
            raise self._error
        assert self._answer is not None
        return self._answer

    # used by the client

    def answer(self, body: bytes) -> None:
        error = wire.parse_error(body)
        if error is None:
            self._answer = body
            return
        code, text = error
        number = wire.failure_number(code)
        if number:
            self._error = JobFailed(text, number)
        elif code == wire.CANCELLED:
            self._error = JobCancelled(text.decode(errors="replace"))
        else:
            self._error = Refused(code.decode(), text.decode(errors="replace"))

    def give_up(self, error: NoAnswer) -> None:
        self._error = error


class _Try:
    """An open attempt of a request, on one socket, with its deadline."""

    def __init__(self, request: Request, connection: _Connection, until_s: float) -> None:
        self.request = request
        self.connection = connection
        self.until_s = until_s


class _Connection:
    """One socket, and how many attempts wait for an answer on it."""

    def __init__(self, dealer: zmq.Socket[bytes]) -> None:
        self.dealer = dealer
        self.waiting = 0


class Client:
    """Submits jobs. For one thread at a time.

    >>> with Client(frontend) as client:
    ...     client.submit(b"one")
    ...     list(client.map([b"two", b"three"]))

    A job that is not answered within `timeout_s` is sent again on a new socket, `retries` times. So a job may
    be done more than once: this client guarantees "at least once". `timeout_s` should be well above the time
    that a job takes, including the wait.
    """

    def __init__(
        self, address: str, *, timeout_s: float = 30.0, retries: int = 2, curve: Curve | None = None
    ) -> None:
        if timeout_s <= 0 or retries < 0:
            raise ValueError("the timeout must be above 0, and retries must be 0 or more")
        self._address = address
        self._timeout_s = timeout_s
        self._retries = retries
        self._curve = curve
        self._context: Context = zmq.Context()
        self._poller = zmq.Poller()
        self._connections: dict[zmq.Socket[bytes], _Connection] = {}
        """Open sockets; all but the current one only wait for answers."""
        self._connection: _Connection | None = None
        """The current one, for the next attempt."""
        self._tries: dict[bytes, _Try] = {}
        """By request id, in the order of sending: the first has the earliest deadline."""
        self._last_id = 0

    def submit(self, payload: bytes) -> bytes:
        """Submit one job, wait, and return its result."""
        return self.start(payload).result()

    def start(self, payload: bytes) -> Request:
        """Submit a job, and wait for it later: `start(payload).result()`."""
        request = Request(self, payload)
        self._send(request)
        return request

    def map(self, payloads: Iterable[bytes], outstanding_max: int = OUTSTANDING_MAX) -> Iterator[bytes]:
        """The results of many jobs, in the order of the payloads; `outstanding_max` are open at once."""
        outstanding: deque[Request] = deque()
        try:
            for payload in payloads:
                outstanding.append(self.start(payload))
                if len(outstanding) >= outstanding_max:
                    yield outstanding.popleft().result()
            while outstanding:
                yield outstanding.popleft().result()
        finally:
            for request in outstanding:
                self._forget(request)

    def wait(self, request: Request) -> None:
        """Wait until this request is answered or its last attempt has timed out. Others are served too."""
        while not request.answered:
            self._listen()
            self._send_again()

    def close(self) -> None:
        """Drop open requests, and close the sockets."""
        self._connection = None
        for waiting in list(self._tries.values()):
            waiting.request.give_up(NoAnswer("the client was closed"))
            self._forget(waiting.request)
        for connection in list(self._connections.values()):
            self._close_connection(connection)
        self._context.term()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, request: Request) -> None:
        connection = self._connection
        if connection is None:
            connection = self._connection = self._open_connection()
        self._last_id += 1
        request.try_id = b"%d" % self._last_id
        request.tries += 1
        self._tries[request.try_id] = _Try(request, connection, time.monotonic() + self._timeout_s)
        connection.waiting += 1
        try:
            connection.dealer.send_multipart([request.try_id, b"", request.payload], zmq.NOBLOCK)
        except zmq.Again:
            return  # ZeroMQ's queue is full: this attempt times out like one that was lost

    def _listen(self) -> None:
        """Wait for answers until the first deadline, and handle those that have come."""
        oldest = next(iter(self._tries.values()))
        wait_s = oldest.until_s - time.monotonic()
        for dealer, _ in self._poller.poll(max(0, math.ceil(wait_s * 1000))):
            assert isinstance(dealer, zmq.Socket)
            self._drain(self._connections[dealer])

    def _drain(self, connection: _Connection) -> None:
        while True:
            try:
                frames = connection.dealer.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            if len(frames) == 3 and not frames[1]:
                waiting = self._tries.pop(frames[0], None)
                if waiting is not None:
                    waiting.request.answer(frames[2])
                    connection.waiting -= 1
        self._close_if_idle(connection)

    def _send_again(self) -> None:
        """Repeat attempts that have timed out on a new socket; the old one stays open for other attempts."""
        now_s = time.monotonic()
        while self._tries:
            oldest = next(iter(self._tries.values()))
            if oldest.until_s > now_s:
                return
            if oldest.connection is self._connection:
                self._connection = None
            request = oldest.request
            self._forget(request)
            if request.tries > self._retries:
                text = f"{self._address}: no answer to {request.tries} attempts of {self._timeout_s:g} s each"
                request.give_up(NoAnswer(text))
            else:
                self._send(request)

    def _forget(self, request: Request) -> None:
        """Stop waiting for its latest attempt."""
        waiting = self._tries.pop(request.try_id, None)
        if waiting is not None:
            waiting.connection.waiting -= 1
            self._close_if_idle(waiting.connection)

    def _open_connection(self) -> _Connection:
        dealer = open_dealer(self._context, self._address, self._curve)
        connection = self._connections[dealer] = _Connection(dealer)
        self._poller.register(dealer, zmq.POLLIN)
        return connection

    def _close_if_idle(self, connection: _Connection) -> None:
        if connection is not self._connection and not connection.waiting:
            self._close_connection(connection)

    def _close_connection(self, connection: _Connection) -> None:
        del self._connections[connection.dealer]
        self._poller.unregister(connection.dealer)
        connection.dealer.close()
