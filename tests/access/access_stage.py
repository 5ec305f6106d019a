"""A gate over a file of tokens, with a loop whose time the test moves."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from hiringhall.access import gate as gate_module
from hiringhall.access.gate import Gate
from hiringhall.access.tokens import TokenList
from hiringhall.storage.data_folder import DataFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from hiringhall.access.tokens import Role

MADE = datetime(2026, 1, 1, tzinfo=UTC)


class GateStage:
    """Who comes in, and when. What the gate does inside a turn, it does at once."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = asyncio.new_event_loop()
        self.file = TokenList(DataFolder(folder))
        self.now = MADE
        self.delayed: list[tuple[float, Callable[[], None]]] = []
        stage = self

        class Dates(datetime):
            @classmethod
            def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
                assert tz is UTC
                return stage.now

        monkeypatch.setattr(gate_module, "datetime", Dates)
        monkeypatch.setattr(self.loop, "call_later", self._call_later)
        self.gate = Gate(self.file, self.loop, lambda action: action())

    def _call_later(self, delay_s: float, call: Callable[..., None], *args: object) -> None:
        self.delayed.append((delay_s, lambda: call(*args)))

    def add(self, name: str, role: Role = "operator", days: float | None = None) -> str:
        return self.file.add(name, role, MADE, MADE + timedelta(days=days) if days is not None else None)

    def check(self) -> None:
        """The check of each second, until its thread has answered."""
        self.gate._check()
        self.loop.run_until_complete(self._settle())

    async def _settle(self) -> None:
        await asyncio.wrap_future(self.gate._thread.submit(lambda: None))
        await asyncio.sleep(0)

    def close(self) -> None:
        self.loop.run_until_complete(self.gate.close())
        self.loop.close()
