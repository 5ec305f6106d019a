"""What sessions must not do to the core, as functions: a source goes in, complaints come out."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from tidy_rules import Complaint, Source, dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

CORE_OBJECTS: Final = (
    "auction",
    "counters",
    "engagement",
    "hall",
    "job",
    "lease",
    "market",
    "queue",
    "scheduler",
    "table",
    "worker",
)
"""What variables and attributes are called that hold an object of the core."""

NOTICES: Final = (
    "announced",
    "assigned",
    "called",
    "chunked",
    "drained",
    "ended",
    "hired",
    "joined",
    "lost",
    "progressed",
    "revoked",
    "woken",
)
"""The notices of a peer; only the core calls them."""
PEERS: Final = ("participant", "peer", "provider", "session", "speaker", "watcher")
"""What variables and attributes are called that hold a peer."""


def session_writes(source: Source) -> Iterator[Complaint]:
    """Dialects call verbs and read; they write no field of an object of the core."""
    if not source.part("dialects", "doors"):
        return
    for node in source.nodes:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                if (
                    isinstance(one, ast.Attribute)
                    and dotted_name(one.value).split(".")[-1].lstrip("_") in CORE_OBJECTS
                ):
                    text = f"{ast.unparse(one)} belongs to the core: call a verb, or add one"
                    yield source.complain(node, text)


def foreign_notices(source: Source) -> Iterator[Complaint]:
    """Dialects and doors call no notice of a peer: a verb of the core does, when it has changed something."""
    if not source.part("dialects", "doors"):
        return
    for node in source.nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in NOTICES
            and dotted_name(node.func.value).split(".")[-1].lstrip("_") in PEERS
        ):
            text = f"{ast.unparse(node.func)} is a notice, which only the core calls: call a verb, or add one"
            yield source.complain(node, text)


SESSION_RULES: Final = (session_writes, foreign_notices)
