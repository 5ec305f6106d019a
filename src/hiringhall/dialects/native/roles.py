"""Who may send which request: three roles, and the role that each kind of request needs.

Invariant: a kind that is not in the table needs the highest role.
"""

from __future__ import annotations

from typing import Final

from hiringhall.dialects.native import wire

VIEWER: Final = 1
"""Reads."""
OPERATOR: Final = 2
"""Reads, submits, works, and changes jobs and queues."""
ADMIN: Final = 3
"""Everything, also schedules, and what tells of other people."""

ROLES: Final = ("viewer", "operator", "admin")
"""By number, from 1 on."""
WITHOUT_TOKEN: Final = ("local", "anonymous")
"""What peers without a token are called, on this machine and elsewhere. No token has such a name."""

NEEDED: Final[dict[str, int]] = {
    wire.BEAT: VIEWER,
    wire.WATCH: VIEWER,
    wire.UNWATCH: VIEWER,
    wire.JOB: VIEWER,
    wire.OUTPUT: VIEWER,
    wire.QUEUES: VIEWER,
    wire.QUEUE: VIEWER,
    wire.WORKERS: VIEWER,
    wire.WORKER: VIEWER,
    wire.JOBS: VIEWER,
    wire.COUNT: VIEWER,
    wire.AUCTIONS: VIEWER,
    wire.HISTORY: VIEWER,
    wire.DOORS: VIEWER,
    wire.METRICS: VIEWER,
    wire.SUBSCRIBE: VIEWER,
    wire.SCHEDULES: VIEWER,
    wire.FLOWS: VIEWER,
    wire.FLOW: VIEWER,
    wire.FLOW_NODES: VIEWER,
    wire.WAIT_FLOW: VIEWER,
    wire.GRAPH: VIEWER,
    wire.SUBMIT: OPERATOR,
    wire.WORK: OPERATOR,
    wire.SLOTS: OPERATOR,
    wire.PROGRESS: OPERATOR,
    wire.CHUNK: OPERATOR,
    wire.LOG: OPERATOR,
    wire.FINISH: OPERATOR,
    wire.FAIL: OPERATOR,
    wire.RELEASE: OPERATOR,
    wire.RENEW: OPERATOR,
    wire.LOSE: OPERATOR,
    wire.CANCEL: OPERATOR,
    wire.RETRY: OPERATOR,
    wire.PAUSE: OPERATOR,
    wire.RESUME: OPERATOR,
    wire.LIMIT: OPERATOR,
    wire.UNLIMIT: OPERATOR,
    wire.DRAIN: OPERATOR,
    wire.UNDRAIN: OPERATOR,
    wire.PAUSE_SCHEDULE: OPERATOR,
    wire.RESUME_SCHEDULE: OPERATOR,
    wire.RUN_SCHEDULE: OPERATOR,
    wire.CANCEL_FLOW: OPERATOR,
    wire.RETRY_FLOW: OPERATOR,
    wire.SCHEDULE: ADMIN,
    wire.UNSCHEDULE: ADMIN,
    wire.SETTINGS: ADMIN,
    wire.AUDIT: ADMIN,
}
"""`unwatch` is for viewers, since it ends what `watch` began."""


def needed(kind: str) -> int:
    """The role that a kind of request needs."""
    return NEEDED.get(kind, ADMIN)


def role_name(role: int) -> str:
    return ROLES[role - 1]
