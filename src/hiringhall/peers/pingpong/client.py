"""The client: hands jobs in at the frontend and waits for their results, one or many at a time.

The law: each try has a request id of its own, which the hall sends back before the answer; so no answer is
taken for another request's, and one that comes too late is taken for none.
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
"""How many requests `map` has under way; ZeroMQ holds back a thousand for a hall that is away."""


class Request:
    """A job that was handed in, and what became of it."""

    def __init__(self, client: Client, payload: bytes) -> None:
        self.payload = payload
        self.tries = 0
        """How often it was sent."""
        self.try_id = b""
        """The request id of the latest."""
        self._client = client
        self._answer: bytes | None = None
        self._error: PingPongError | None = None

    @property
    def answered(self) -> bool:
        """Whether `result` would return, or raise, at once."""
        return self._answer is not None or self._error is not None

    def result(self) -> bytes:
        """Wait for the result. A job that failed raises; see `errors`."""
        self._client.wait(self)
        if self._error is not None:
            raise self._error
        assert self._answer is not None
        return self._answer

    # what the client uses

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
    """A request on its way: over this line, until that time."""

    def __init__(self, request: Request, line: _Line, until_s: float) -> None:
        self.request = request
        self.line = line
        self.until_s = until_s


class _Line:
    """One socket, and how many tries wait for an answer on it."""

    def __init__(self, dealer: zmq.Socket[bytes]) -> None:
        self.dealer = dealer
        self.waiting = 0


class Client:
    """Hands jobs in. For one thread at a time.

    >>> with Client(frontend) as client:
    ...     client.submit(b"one")
    ...     list(client.map([b"two", b"three"]))

    A job that is not answered within `timeout_s` is sent again on a new socket, `retries` times. A job may
    therefore be done more than once: at least once is what this client and the hall promise each other.
    `timeout_s` should be well above the time that a job takes, waiting included.
    """

    def __init__(
        self, address: str, *, timeout_s: float = 30.0, retries: int = 2, curve: Curve | None = None
    ) -> None:
        if timeout_s <= 0 or retries < 0:
            raise ValueError("the timeout is above nought, and there are no retries or some")
        self._address = address
        self._timeout_s = timeout_s
        self._retries = retries
        self._curve = curve
        self._context: Context = zmq.Context()
        self._poller = zmq.Poller()
        self._lines: dict[zmq.Socket[bytes], _Line] = {}
        """Open sockets; all but the current one only wait for answers."""
        self._line: _Line | None = None
        """The current one, over which the next try goes."""
        self._tries: dict[bytes, _Try] = {}
        """By request id, in the order in which they were sent: the first is the first to run out of time."""
        self._last_id = 0

    def submit(self, payload: bytes) -> bytes:
        """Have one job done; its result."""
        return self.start(payload).result()

    def start(self, payload: bytes) -> Request:
        """Hand a job in, and wait for it later: `start(payload).result()`."""
        request = Request(self, payload)
        self._send(request)
        return request

    def map(self, payloads: Iterable[bytes], outstanding_max: int = OUTSTANDING_MAX) -> Iterator[bytes]:
        """The results of many jobs, in the order of the payloads; so many are under way at once."""
        under_way: deque[Request] = deque()
        try:
            for payload in payloads:
                under_way.append(self.start(payload))
                if len(under_way) >= outstanding_max:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for request in under_way:
                self._forget(request)

    def wait(self, request: Request) -> None:
        """Until this request is answered, or its last try has run out of time. Others are seen to meanwhile."""
        while not request.answered:
            self._listen()
            self._send_again()

    def close(self) -> None:
        """Forget what is under way, and leave."""
        self._line = None
        for waiting in list(self._tries.values()):
            waiting.request.give_up(NoAnswer("the client was closed"))
            self._forget(waiting.request)
        for line in list(self._lines.values()):
            self._hang_up(line)
        self._context.term()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, request: Request) -> None:
        line = self._line
        if line is None:
            line = self._line = self._open_line()
        self._last_id += 1
        request.try_id = b"%d" % self._last_id
        request.tries += 1
        self._tries[request.try_id] = _Try(request, line, time.monotonic() + self._timeout_s)
        line.waiting += 1
        try:
            line.dealer.send_multipart([request.try_id, b"", request.payload], zmq.NOBLOCK)
        except zmq.Again:
            return  # as much waits as ZeroMQ keeps: this try runs out of time like one that was lost

    def _listen(self) -> None:
        """Wait for answers until the first try runs out of time, and take in what has come."""
        oldest = next(iter(self._tries.values()))
        wait_s = oldest.until_s - time.monotonic()
        for dealer, _ in self._poller.poll(max(0, math.ceil(wait_s * 1000))):
            assert isinstance(dealer, zmq.Socket)
            self._drain(self._lines[dealer])

    def _drain(self, line: _Line) -> None:
        while True:
            try:
                frames = line.dealer.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            if len(frames) == 3 and not frames[1]:
                waiting = self._tries.pop(frames[0], None)
                if waiting is not None:
                    waiting.request.answer(frames[2])
                    line.waiting -= 1
        self._hang_up_if_idle(line)

    def _send_again(self) -> None:
        """A try that ran out of time is followed by one on a new socket; the old one stays for other tries."""
        now_s = time.monotonic()
        while self._tries:
            oldest = next(iter(self._tries.values()))
            if oldest.until_s > now_s:
                return
            if oldest.line is self._line:
                self._line = None
            request = oldest.request
            self._forget(request)
            if request.tries > self._retries:
                text = f"{self._address}: no answer, {request.tries} times in {self._timeout_s:g} s each"
                request.give_up(NoAnswer(text))
            else:
                self._send(request)

    def _forget(self, request: Request) -> None:
        """Wait for its latest try no more."""
        waiting = self._tries.pop(request.try_id, None)
        if waiting is not None:
            waiting.line.waiting -= 1
            self._hang_up_if_idle(waiting.line)

    def _open_line(self) -> _Line:
        dealer = open_dealer(self._context, self._address, self._curve)
        line = self._lines[dealer] = _Line(dealer)
        self._poller.register(dealer, zmq.POLLIN)
        return line

    def _hang_up_if_idle(self, line: _Line) -> None:
        if line is not self._line and not line.waiting:
            self._hang_up(line)

    def _hang_up(self, line: _Line) -> None:
        del self._lines[line.dealer]
        self._poller.unregister(line.dealer)
        line.dealer.close()
