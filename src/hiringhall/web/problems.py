"""Errors as RFC 9457 problem documents.

    HTTP/1.1 404 Not Found
    content-type: application/problem+json

    {"type": "about:blank", "title": "Not Found", "status": 404, "detail": "...", "code": "unknown_job"}

Invariant: every error of the API has this form, and `code` is a stable word that programs may compare.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.responses import Response

from hiringhall.sdk.errors import HallError, HallRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

MEDIA: Final = "application/problem+json"
RETRY_S: Final = 2
"""What a client is told to wait when the hall is away or full."""

STATUSES: Final = {
    "bad_request": 400,
    "bad_frame": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "unknown_job": 404,
    "unknown_queue": 404,
    "unknown_worker": 404,
    "unknown_flow": 404,
    "unknown_schedule": 404,
    "not_found": 404,
    "wrong_state": 409,
    "cycle": 409,
    "expected_differs": 409,
    "mixed_jobs": 409,
    "job_failed": 409,
    "job_cancelled": 409,
    "not_kept": 410,
    "too_large": 413,
    "unknown_kind": 501,
    "hall_unreachable": 502,
    "store_down": 503,
    "hall_full": 503,
    "queue_full": 503,
    "closing": 503,
    "busy": 503,
    "history_unreadable": 503,
}
"""The status of each code, of the hall's refusals and of the web's own. Another refusal of the hall is 409."""
_REFUSED: Final = 409
_WAIT: Final = frozenset({502, 503})


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong, as RFC 9457 says."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str


class Problem(Exception):
    """The answer to a request is an error. `code` is one of `STATUSES`, unless a status is given."""

    def __init__(
        self, code: str, detail: str, status: int = 0, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(code, detail)
        self.headers = dict(headers or {})
        self.code = code
        self.detail = detail
        self.status = status or STATUSES.get(code, _REFUSED)

    def __str__(self) -> str:
        return self.detail


def of_hall(error: HallError) -> Problem:
    """What the hall refused, or that it does not answer."""
    if isinstance(error, HallRefused):
        return Problem(error.code, error.text)
    return Problem("hall_unreachable", str(error))


def respond(problem: Problem) -> Response:
    """The problem as an answer."""
    document = ProblemDocument(
        title=HTTPStatus(problem.status).phrase,
        status=problem.status,
        detail=problem.detail,
        code=problem.code,
    )
    headers = problem.headers | ({"retry-after": str(RETRY_S)} if problem.status in _WAIT else {})
    return Response(msgspec.json.encode(document), problem.status, headers, MEDIA)
