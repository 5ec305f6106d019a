"""What all requests share: the connections to the hall, the summary, the history."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hiringhall.web.charts import Charts
from hiringhall.web.hall import HallPool
from hiringhall.web.history import Reader
from hiringhall.web.sessions import Sessions
from hiringhall.web.summary import SummaryHub

if TYPE_CHECKING:
    from hiringhall.web.options import WebOptions


class Services:
    """The parts of one web process. Made before its event loop runs, used only on that loop."""

    def __init__(self, options: WebOptions) -> None:
        self.options = options
        self.sessions = Sessions(tls=bool(options.certificate))
        self.history = Reader(options.data) if options.data else None
        """None: the hall is asked for its history."""
        self.charts = Charts(self.history) if self.history is not None else None
        self.halls = HallPool(options.hall, self._end_token)
        self.summary = SummaryHub(self.halls.addresses)
        self.closing = asyncio.Event()
        """Set when the process ends: streams end then."""
        self.streams = 0
        """Streams of events that are open."""

    def _end_token(self, token: str) -> None:
        self.sessions.close_token(token)
        self.summary.wake()  # streams look whether they may go on

    def end_session(self, cookies: str) -> str:
        """End the session in a Cookie field. Returns the value of the Set-Cookie field that removes it."""
        removed = self.sessions.close(cookies)
        self.summary.wake()
        return removed

    def end_streams(self) -> None:
        """The process ends: streams must not be waited for."""
        self.closing.set()
        self.summary.wake()

    async def close(self) -> None:
        self.end_streams()
        await self.summary.close()
        await self.halls.close()
        if self.history is not None:
            self.history.close()
