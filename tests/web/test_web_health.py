"""`/readyz`: ready only if the hall answers, its store works and it does not close."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from web_metrics import answer

from hiringhall.sdk.errors import HallUnreachable
from hiringhall.web import health


class Hall:
    """A connection that answers, or does not."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def shared(self, kind: str, body: Any = None) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("said", "status", "reason"),
    [
        (answer(), 200, ""),
        (answer(store_trouble="disk full"), 503, "disk full"),
        (answer(closing=True), 503, "closing"),
        (HallUnreachable("no hall at 127.0.0.1:1"), 503, "no hall at 127.0.0.1:1"),
    ],
)
def test_ready_or_not_with_the_reason(said: Any, status: int, reason: str) -> None:
    response = asyncio.run(health.ready(Hall(said)))
    body = json.loads(bytes(response.body))
    assert (response.status_code, body["ready"]) == (status, status == 200)
    assert [reason in text for text in body["reasons"]] == [True] * bool(reason)


def test_alive_says_nothing_of_the_hall() -> None:
    assert bytes(health.alive().body) == b"ok\n"
