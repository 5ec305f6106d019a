"""A hall checks itself when it is asked to, by signal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testimony import audit

if TYPE_CHECKING:
    from hall_process import HallProcess


def test_every_audit_that_is_asked_for_is_answered(hall: HallProcess) -> None:
    """Although a line that the log has just written is counted, and not repeated."""
    assert [audit(hall) for _ in range(3)] == ["clean"] * 3
