"""A connection to a hall that mends itself, on one event loop.

Invariant: a request that the hall may have seen is not forgotten when the connection is lost: it is sent again
on the next one, and a submit says so (`again`), so that no job is doubled. What is watched is watched again. A
request fails only when the hall refuses it, or when no hall has answered for longer than `patience_s`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hiringhall.dialects.native import wire
from hiringhall.sdk import conversation as said
from hiringhall.sdk.addresses import VARIABLE, Address, read_addresses, read_token
from hiringhall.sdk.conversation import Conversation, JobSpec, Request
from hiringhall.sdk.errors import HallError, HallRefused, HallUnreachable
from hiringhall.sdk.link import Link, describe, dial
from hiringhall.sdk.requests import Ask, SubmitBulk, Submits, parts
from hiringhall.sdk.watching import ENDS, Bulk, Watch, Watches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from hiringhall.sdk.link import Dial
    from hiringhall.sdk.requests import Caller

PATIENCE_S: Final = 30.0
"""How long a request waits for a hall that has answered before and is gone."""
HELLO_S: Final = 5.0
"""How long a hall may take to answer hello."""
BACKOFF_S: Final = 0.05
BACKOFF_MAX_S: Final = 2.0
STEADY_S: Final = 5.0
"""A connection that held this long was a good one: the next attempt comes soon."""
WATCHED_AGAIN_MAX: Final = 250
"""Jobs that are watched again at the same time on a new connection: the hall may have to look each up."""
_LOG: Final = logging.getLogger("hiringhall")

OnNotice: TypeAlias = "Callable[[Any], None]"


class Connection:
    """Requests, submits and watches. Use it only on the event loop where it was first used.

    A worker sets `patience_s` to None: then it tries to connect for ever, and `on_connected` is where it says
    `work`. Callbacks are called on the loop and must not raise.
    """

    def __init__(
        self,
        urls: str | Sequence[Address] | None = None,
        *,
        name: str = "",
        patience_s: float | None = -1.0,
        dialled: Dial = dial,
        token: str | None = None,
        person: str = "",
        address: str = "",
    ) -> None:
        """`token`: shown to the hall; None: that of HALL_TOKEN, empty: none. `person`: who uses this program,
        for the audit log, and `address` where that person is, if not here.
        """
        self.addresses = read_addresses(urls) if urls is None or isinstance(urls, str) else list(urls)
        self.patience_s = PATIENCE_S if patience_s is not None and patience_s < 0 else patience_s
        """How long requests wait for a hall that is gone; None: for ever."""
        self.welcome: said.Welcome | None = None
        """What the hall said last; None: none has answered yet."""
        self.on_frame: dict[type[said.Notice], OnNotice] = {}
        """Called with each notice of this type, such as `Assigned`, `Chunked` or `Summary`."""
        self.on_connected: list[Callable[[], None]] = []
        """Called on each new connection, before requests are sent again."""
        self.on_disconnected: list[Callable[[str], None]] = []
        """Called with the reason when a connection has ended, before the next is tried."""
        self.on_refused: list[Callable[[HallRefused], None]] = []
        """Called each time when the hall does not let this program in."""
        self._dial = dialled
        self._conversation = Conversation(name or f"{os.getpid()}", read_token(token), person, address)
        self._watches = Watches()
        self._submits = Submits(self._start, self._watches, self)
        self._link: Link | None = None
        """The stream, from hello on."""
        self._greeted: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[str] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._again: asyncio.Task[None] | None = None
        self._at = 0
        """Index of the address that is or was connected."""
        self._home = ""
        """Name of the hall that has the watched jobs."""
        self._closed = False

    @property
    def connected(self) -> bool:
        return self._conversation.greeted

    @property
    def unanswered(self) -> int:
        """Requests that wait for an answer."""
        return len(self._conversation.pending)

    @property
    def watched(self) -> int:
        """Jobs whose end somebody waits for."""
        return len(self._watches.waiting())

    @property
    def url(self) -> str:
        """Where it is connected, or was last."""
        return self.addresses[self._at].url

    # --- requests

    async def request(self, kind: str, body: Any) -> Any:
        """The hall's answer. Raises HallRefused or HallUnreachable."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        request = Ask(kind, body, answer)
        self._start(request)
        try:
            return await answer
        finally:
            self._conversation.forget(request)

    def send(self, kind: str, body: Any) -> None:
        """Send a frame that wants no answer. Dropped while there is no connection."""
        if self._conversation.greeted and self._link is not None:
            self._link.send(wire.encode(kind, 0, body))

    async def drain(self) -> None:
        """Wait until the hall reads what was sent."""
        if self._link is not None:
            await self._link.drain()

    async def connect(self) -> None:
        """Return when the hall has been greeted. Raises HallUnreachable."""
        if not self.connected:
            await self.request(wire.BEAT, None)

    async def submit(self, job: JobSpec, *, durable: bool = True, keyed: bool = False) -> Watch:
        """Submit and watch a job; those of one pass of the loop share a frame. `keyed`: with a user's key."""
        caller: asyncio.Future[Watch] = asyncio.get_running_loop().create_future()
        self._submits.add(job, caller, durable=durable, keyed=keyed)
        return await caller

    def begin_submit(self, job: JobSpec, caller: Caller, *, durable: bool, keyed: bool) -> None:
        """As `submit`, for a caller that is told."""
        self._submits.add(job, caller, durable=durable, keyed=keyed)

    async def submit_all(
        self, jobs: list[JobSpec], *, durable: bool = True, keyed: bool = False
    ) -> list[Watch]:
        """Submit and watch many jobs."""
        loop = asyncio.get_running_loop()
        callers: list[asyncio.Future[Watch]] = [loop.create_future() for _ in jobs]
        for job, caller in zip(jobs, callers, strict=True):
            self._submits.add(job, caller, durable=durable, keyed=keyed)
        return await asyncio.gather(*callers)

    def submit_bulk(
        self, jobs: list[JobSpec], bulk: Bulk, first: int, *, level: int = ENDS, again: bool = False
    ) -> None:
        """Submit many jobs with keys of their own; `first` is the place of the first in `bulk`. `again`: they
        may have been submitted before, by another program. With the level ALL `on_frame` hears what they say.
        """
        for part in parts(jobs):
            self._start(SubmitBulk(part, bulk, first, self._watches, level=level, again=again))
            first += len(part)

    async def watch_bulk(self, job_id: int, bulk: Bulk, level: int = ENDS) -> None:
        """Hear of the end of a job that another program has submitted. Raises HallRefused."""
        self._watches.add_bulk([job_id], bulk)
        await self.request(wire.WATCH, (job_id, level))

    async def bulk_ends(self, bulk: Bulk) -> list[said.Ended]:
        """Wait until jobs of the bulk have ended; their ends. Raises HallError if one will not be heard of."""
        while not bulk.ended:
            if bulk.failed is not None:
                raise bulk.failed
            bulk.waiter = asyncio.get_running_loop().create_future()
            await self.wait(bulk.waiter)
        ends, bulk.ended = bulk.ended, []
        return ends

    def drop_bulk(self, bulk: Bulk) -> None:
        """Nobody reads it any more."""
        self._watches.drop_bulk(bulk)

    async def watch(self, job_id: int, level: int = ENDS) -> Watch:
        """Hear of this job. If the hall does not know it, the watch has an error."""
        watch = self._watches.add(job_id, self)
        watch.level = max(watch.level, level)
        try:
            await self.request(wire.WATCH, (job_id, watch.level))
        except HallRefused as error:
            self._watches.failed(job_id, error)
        return watch

    async def heard(self, watch: Watch) -> None:
        """Wait until something new is heard of a watched job."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        watch.waiters.append(waiter)
        try:
            await self.wait(waiter)
        finally:
            if waiter in watch.waiters:
                watch.waiters.remove(waiter)

    async def wait(self, waiter: asyncio.Future[None]) -> None:
        """Wait for something that the hall will say of a job."""
        await waiter

    def limit(self, limit_s: float) -> AbstractAsyncContextManager[object]:
        """Ends what waits in the block with TimeoutError after this time."""
        return asyncio.timeout(limit_s)

    async def close(self) -> None:
        """Send what is left and disconnect. Requests that wait fail."""
        self._closed = True
        keeper = self._keeper
        if keeper is not None:
            keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeper

    def abandon(self) -> object:
        """In a forked child: see `Link.abandon`."""
        self._closed = True
        return self, self._link.abandon() if self._link is not None else None

    def _start(self, request: Request) -> None:
        if self._closed:
            request.failed(HallUnreachable("the connection to the hall was closed by this program"))
            return
        self._conversation.add(request)
        if self._conversation.greeted:
            self._write(request)
        else:
            request.trouble_s = asyncio.get_running_loop().time()
            if self._keeper is None:
                self._keeper = asyncio.create_task(self._keep(), name="hiringhall connection")

    def _write(self, request: Request) -> None:
        assert self._link is not None
        assert self.welcome is not None
        try:
            frame = self._conversation.frame(request)
        except (OverflowError, TypeError, ValueError) as error:
            # Fails this request alone: left among the pending ones, it would break each new connection.
            self._conversation.forget(request)
            request.failed(HallRefused("bad_request", f"the request cannot be encoded: {error}"))
            return
        if len(frame) > self.welcome.frame_bytes_max:
            self._conversation.forget(request)
            most = self.welcome.frame_bytes_max
            request.failed(
                HallRefused("too_large", f"{len(frame)} bytes are more than a frame may have ({most})")
            )
            return
        self._link.send(frame)

    # --- what the hall says

    def _received(self, data: bytes) -> None:
        watches = self._watches
        for event in self._conversation.receive(data):
            kind = type(event)
            if kind is said.Ended:
                watches.ended(event)  # type: ignore[arg-type]
            elif kind is said.Answered:
                event.request.answered(event.body)  # type: ignore[union-attr]
            else:
                self._hear(event)

    def _hear(self, event: said.Event) -> None:
        """What comes less often."""
        if isinstance(event, said.Refused):
            error = HallRefused(event.code, event.text)
            if event.request is not None:
                event.request.failed(error)
            else:
                _LOG.warning("%s: %s", self.url, error)
        elif isinstance(event, said.Broken):
            self._broken(event)
        elif isinstance(event, said.Welcomed):
            self._welcomed(event.welcome)
        elif isinstance(event, said.Chunked | said.Logged | said.Progressed):
            self._watches.heard(event)
            self._pass_on(event)
        else:
            self._pass_on(event)  # type: ignore[arg-type]

    def _pass_on(self, event: said.Notice) -> None:
        hear = self.on_frame.get(type(event))
        if hear is not None:
            hear(event)

    def _broken(self, event: said.Broken) -> None:
        reason = f"{self.url}: {event.reason}"
        if event.fatal and self._greeted is not None and self._greeted.done():
            # Before the welcome it is just an address where no hall answers.
            self._fail_all(lambda: _not_let_in(event) or HallError(reason))
        elif self._greeted is not None and (refused := _not_let_in(event)) is not None:
            self._greeted.set_exception(refused)
        if self._link is not None:
            self._link.abort(event.reason)

    def _welcomed(self, welcome: said.Welcome) -> None:
        self.welcome = welcome
        if self._greeted is not None and not self._greeted.done():
            self._greeted.set_result(None)
        for call in self.on_connected:
            call()
        for request in self._conversation.unsent():
            self._write(request)
        waiting = self._watches.waiting()
        if waiting and self._home in ("", welcome.hall):
            self._again = asyncio.create_task(self._watch_again(waiting))
        elif waiting:
            for job_id, _ in waiting:
                self._watches.failed(
                    job_id,
                    HallUnreachable(
                        f"job {job_id} is in the hall {self._home!r}, which does not answer any more"
                    ),
                )
        self._home = welcome.hall

    async def _watch_again(self, waiting: list[tuple[int, int]]) -> None:
        """After a new connection: hear of what was watched before."""

        async def watch(job_id: int, level: int) -> None:
            try:
                await self.request(wire.WATCH, (job_id, level))
            except HallRefused as error:
                self._watches.failed(job_id, error)

        with contextlib.suppress(HallUnreachable):
            for start in range(0, len(waiting), WATCHED_AGAIN_MAX):
                part = waiting[start : start + WATCHED_AGAIN_MAX]
                await asyncio.gather(*(watch(job_id, level) for job_id, level in part))

    # --- the stream, kept up

    async def _keep(self) -> None:
        """Connect, and connect again, as long as anybody needs the connection."""
        loop = asyncio.get_running_loop()
        backoff_s = BACKOFF_S
        try:
            while True:
                ended, errors = await self._connect_any()
                if ended is None:
                    self._give_up(errors)
                    if not self._needed():
                        return
                else:
                    connected_s = loop.time()
                    reason = await ended
                    if not self._needed():
                        return
                    _LOG.warning("lost the connection to %s: %s", self.url, reason)
                    if loop.time() - connected_s > STEADY_S:
                        backoff_s = BACKOFF_S
                await asyncio.sleep(backoff_s * random.uniform(0.5, 1.0))  # noqa: S311 (no secret)
                backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)
        finally:
            self._keeper = None
            await self._hang_up()

    def _needed(self) -> bool:
        return self.patience_s is None or bool(self._conversation.pending) or bool(self._watches.waiting())

    async def _connect_any(self) -> tuple[asyncio.Future[str] | None, list[tuple[Address, Exception]]]:
        """Try each address once, the last good one first: a future of the end, or why there is none."""
        errors: list[tuple[Address, Exception]] = []
        first = self._at
        for step in range(len(self.addresses)):
            self._at = (first + step) % len(self.addresses)
            address = self.addresses[self._at]
            try:
                return await self._connect(address), []
            except (OSError, HallError) as error:
                errors.append((address, error))
        self._at = first
        return None, errors

    async def _connect(self, address: Address) -> asyncio.Future[str]:
        loop = asyncio.get_running_loop()
        link = self._link = Link(self._received, self._link_ended)
        greeted = self._greeted = loop.create_future()
        ended = self._ended = loop.create_future()
        try:
            await self._dial(address, link)
            link.send(self._conversation.hello())
            async with asyncio.timeout(HELLO_S):
                await greeted
        except TimeoutError as error:
            link.abort("the hall did not answer hello")
            raise HallUnreachable(str(error) or f"it did not answer hello within {HELLO_S:g} s") from None
        except BaseException:
            link.abort("the hall did not answer hello")
            raise
        return ended

    def _link_ended(self, link: Link, reason: str) -> None:
        if link is not self._link:
            return
        self._link = None
        connected = self._conversation.greeted
        if self._greeted is not None and not self._greeted.done():
            self._greeted.set_exception(HallUnreachable(reason))
        now_s = asyncio.get_running_loop().time()
        for request in self._conversation.lose():
            request.failed(HallUnreachable(f"lost the connection to {self.url}: {reason}"))
        for request in self._conversation.pending.values():
            if request.trouble_s < 0:
                request.trouble_s = now_s
        if connected:
            for call in self.on_disconnected:
                call(reason)
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(reason)

    def _give_up(self, errors: list[tuple[Address, Exception]]) -> None:
        """No address answers: fail the requests that have waited for too long. With a token that the hall does
        not take, waiting does not help.
        """
        refused = [error for _, error in errors if isinstance(error, HallRefused)]
        if refused:
            self._fail_all(lambda: HallRefused(refused[0].code, refused[0].text))
            for call in self.on_refused:
                call(refused[0])
            return
        if self.patience_s is None:
            return
        reasons = [f"{address}: {describe(error)}" for address, error in errors]
        # A program that never met a hall is told at once: most likely none was started.
        patience_s = self.patience_s if self.welcome is not None else 0.0
        now_s = asyncio.get_running_loop().time()
        text = unreachable(self.addresses, reasons)
        for request in list(self._conversation.pending.values()):
            if now_s - request.trouble_s >= patience_s:
                self._conversation.forget(request)
                request.failed(HallUnreachable(text))

    def _fail_all(self, make: Callable[[], HallError]) -> None:
        for request in list(self._conversation.pending.values()):
            self._conversation.forget(request)
            request.failed(make())

    async def _hang_up(self) -> None:
        """Nobody needs the connection, or the event loop ends."""
        link = self._link
        if self._again is not None:
            self._again.cancel()
        if link is not None:
            await link.close()
        # What is kept must not refer to an event loop that has ended.
        self._link = self._greeted = self._ended = self._again = None
        self._fail_all(lambda: HallUnreachable("the connection to the hall was closed by this program"))


def _not_let_in(event: said.Broken) -> HallRefused | None:
    """The hall does not take the token, or wants one; None: something else is wrong."""
    return HallRefused(event.code, event.reason) if event.code == wire.UNAUTHORIZED else None


def unreachable(addresses: Sequence[Address], reasons: Sequence[str]) -> str:
    """What to say when no hall answers."""
    where = " or ".join(address.url for address in addresses)
    if len(addresses) == 1:
        reasons = [reason.removeprefix(f"{where}: ") for reason in reasons]
    why = f" ({'; '.join(reasons)})" if reasons else ""
    return f"no hall answers at {where}{why}: start one with `hall serve`, or set {VARIABLE}"
