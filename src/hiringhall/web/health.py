"""`/healthz` and `/readyz`: whether this process lives, and whether the hall can do its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, PlainTextResponse

from hiringhall.sdk.errors import HallError, HallRefused
from hiringhall.web.metrics import KIND

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from starlette.responses import Response

    from hiringhall.web.metrics import Asker


def alive() -> Response:
    """The web process answers. It says nothing of the hall."""
    return PlainTextResponse("ok\n", headers={"Cache-Control": "no-store"})


async def ready(hall: Asker) -> Response:
    """200 if the hall takes and gives out jobs; otherwise 503, with the reasons."""
    try:
        reasons = reasons_of(await hall.shared(KIND))
    except HallRefused as error:
        return not_let_in(error)
    except HallError as error:
        reasons = [f"the hall does not answer: {error}"]
    return _answer(reasons)


def not_let_in(refused: HallRefused) -> Response:
    """The hall wants a token of the web."""
    return _answer([f"the hall does not let the web in ({refused.text}): give the web a token in HALL_TOKEN"])


def _answer(reasons: list[str]) -> Response:
    body = {"ready": not reasons, "reasons": reasons}
    return JSONResponse(body, 503 if reasons else 200, headers={"Cache-Control": "no-store"})


def reasons_of(answer: Mapping[str, Any]) -> list[str]:
    """Why the hall does not do all its work; empty: it does."""
    reasons: list[str] = []
    if answer["store_trouble"]:
        reasons.append(f"the store is in trouble, durable jobs are refused: {answer['store_trouble']}")
    if answer["closing"]:
        reasons.append("the hall is closing and gives out no jobs")
    return reasons
