"""Turns errors of PostgreSQL and of its connection into messages that tell the operator what to do."""

from __future__ import annotations

import ssl
from typing import Final

from hiringhall.storage.contract import StoreError

POOLED: Final = ("26000", "42P05")
"""A backend does not know a statement that was prepared before, or another connection has prepared it there."""
_HINT: Final = " HINT: NOTE: pgbouncer"
"""Where asyncpg begins to advise those who write programs with it."""
_OTHER_BACKEND: Final = (
    "the connection to {place} goes to another server process than before, as behind a pooler:"
    " give the address of PostgreSQL itself, or a pooler in session mode"
)
_ADVICE: Final = {
    "08": "the connection to {place} failed: the hall connects again by itself",
    "25006": "{place} is read-only, as a standby is: give the address of the primary,"
    " or several hosts with target_session_attrs=read-write",
    "28": "{place} refuses this user: check the user and the password of the URL, and pg_hba.conf",
    "3D000": "the database of {place} does not exist: create it with createdb",
    "3F000": "the schema of {place} does not exist: let the user of the URL create it, or create it for him",
    "42P01": "{place} has no tables of a hall that this user can use: start a hall on it once,"
    " or give the URL with which the halls are started",
    "42501": "the user of {place} lacks a right: let him own the database, or the schema hiringhall in it",
    "53100": "the disk of {place} is full: free some space, then the hall continues by itself",
    "53200": "{place} has not enough memory: check its settings and the system log",
    "53300": "{place} has no connection left: raise max_connections, or stop other clients",
    "54": "a value is too large for {place}: lower the limit for payloads and results",
    "55P03": "somebody has locked a table of {place}: end that transaction, then the hall continues by itself",
    "57014": "{place} took too long: check what else it does, and its disk",
    "57P01": "{place} was shut down, or somebody ended the connection: the hall connects again by itself",
    "57P02": "{place} crashed and recovers: the hall connects again by itself",
    "57P03": "{place} is starting up or shutting down: the hall connects again by itself",
    "58": "the disk of {place} failed: check its log and the system log",
    "XX001": "{place} is damaged: restore a backup",
    "XX002": "an index of {place} is damaged: run REINDEX",
    "23505": "{place} already has such a row: this is a bug in the hall, please report it",
    "HALL1": "another hall has taken over {place}: this one writes no more, stop it",
    "HALL2": _OTHER_BACKEND,
    **dict.fromkeys(POOLED, _OTHER_BACKEND),
    "HALL3": "{place} has another last commit than this hall: this is a bug in the hall, please report it",
}
"""By code, or by the class of codes: its first two characters."""

FENCED: Final = "HALL1"
DISPLACED: Final = "HALL2"
"""Another connection of the same hall may write, as after an attempt to connect that was given up and then
succeeded. A new connection is needed."""


class Fenced(StoreError):
    """Another incarnation has taken over: nothing that this one does is kept any more."""


def explain(error: BaseException, place: str) -> StoreError:
    """What failed, where, what to do, and the message of PostgreSQL."""
    code = str(getattr(error, "sqlstate", None) or "")
    advice = _ADVICE.get(code) or _ADVICE.get(code[:2])
    text = " ".join(str(error).split()).partition(_HINT)[0]
    if isinstance(error, ssl.SSLCertVerificationError):
        advice, code = (
            "the certificate of {place} is not trusted: check sslrootcert and the name of the host in the URL",
            "TLS",
        )
    elif advice is None and not code:
        advice, code = "{place} cannot be reached: is PostgreSQL running there?", type(error).__name__
    message = (
        f"{(advice or 'using {place} failed').format(place=place)} ({f'{code}: {text}' if text else code})"
    )
    return Fenced(message) if code == FENCED else StoreError(message)
