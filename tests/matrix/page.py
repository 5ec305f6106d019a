"""docs/matrix.md, made from the table of losses."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from .aspects import FACTS
from .cells import Cell
from .house import SUBMITTERS, WORKERS
from .losses import LOSSES, Loss, expected, reasons

PAGE: Final = Path(__file__).parents[2] / "docs" / "matrix.md"

NAMES: Final = {
    "gearman": "[Gearman](protocols/gearman.md)",
    "draft": "[Gearman's draft](protocols/gearman-draft.md)",
    "dwork": "[dwork](protocols/dwork.md)",
    "pingpong": "[PING/PONG](protocols/pingpong.md)",
    "wmp": "[WMP](protocols/wmp.md)",
    "hire": "[hire](protocols/hire.md)",
    "beanstalkd": "[beanstalkd](protocols/beanstalkd.md)",
    "native": "[native](protocols/native.md)",
    "http": "[HTTP](http.md)",
    "schedule": "[a schedule](schedules.md)",
}
TITLES: Final = {
    "success": "Success",
    "failure": "Failure",
    "progress": "Progress",
    "chunks": "Data before the result",
    "cancel": "Cancel",
    "lost worker": "A lost worker",
    "needs": "Needs",
    "resources": "Resources",
    "limits": "Limits",
    "key": "Keys",
}
HOW: Final = {
    "gearman": "A client waits for its job and has set the option `exceptions`.",
    "draft": "An application waits for its job (sync+wait).",
    "dwork": "A producer creates a task and looks it up.",
    "wmp": "A manager has jobs, and the hall works for it (`managers`). The hall takes a job while it knows a"
    " worker that could start it; of a hire worker it knows that from its first bid for the type.",
    "hire": "A provider announces its own jobs and hires.",
    "native": "A client of the Python SDK, or of any other language, watches its job.",
    "schedule": "Nobody waits for its jobs: who knows the id, or looks into the history, sees what became of"
    " them.",
}
"""Who submits, where it is not plain."""
CORNER: Final = "handed in by ↓<br>done by →"
OPENING: Final = """\
# The matrix of dialects

A job that is handed in at one door can be done by a worker of another. This page says, for every pair of
dialects, what works and what is lost in translation. `make matrix` writes it from a table that a test proves:
the test runs every cell of this page on one hall. It fails if something does not work and is not explained
here, and also if something is explained here as lost, and works.

A row is the dialect in which a job is handed in, a column the dialect of the worker that does it.

- **yes**: every sentence above the table holds.
- *partly*: some hold. The numbers refer to the notes below the table: what is lost, and why.
- no: none holds.

The Python SDK and `hall work`, also with `--shell`, speak the native protocol; the dashboard uses the HTTP API.
"""


def render() -> str:
    """The page."""
    parts = [OPENING, _overview(), *(_aspect(aspect) for aspect in FACTS), *_dialects()]
    return "\n".join(parts)


def _overview() -> str:
    total = sum(len(facts) for facts in FACTS.values())
    rows = [
        [NAMES[submitter], *(str(_count(submitter, worker)) for worker in WORKERS)] for submitter in SUBMITTERS
    ]
    text = f"How many of the {total} sentences on this page hold:\n\n"
    return text + _table([CORNER, *(NAMES[worker] for worker in WORKERS)], rows)


def _count(submitter: str, worker: str) -> int:
    return sum(len(expected(Cell(aspect, submitter, worker))) for aspect in FACTS)


def _aspect(aspect: str) -> str:
    facts = "".join(f"- **{fact}**: {sentence}\n" for fact, sentence in FACTS[aspect].items())
    notes: list[str] = []
    rows = []
    for submitter in SUBMITTERS:
        cells = [_cell(Cell(aspect, submitter, worker), notes) for worker in WORKERS]
        rows.append([NAMES[submitter], *cells])
    table = _table([CORNER, *(NAMES[worker] for worker in WORKERS)], rows)
    listed = "".join(f"{number}. {note}\n" for number, note in enumerate(notes, 1))
    return f"## {TITLES[aspect]}\n\n{facts}\n{table}\n{listed}"


def _cell(cell: Cell, notes: list[str]) -> str:
    facts = expected(cell)
    if len(facts) == len(FACTS[cell.aspect]):
        return "**yes**"
    numbers: list[str] = []
    for loss in reasons(cell):
        lost = _lost(loss)
        note = f"Lost: {lost}. {loss.reason}" if lost else loss.reason
        if note not in notes:
            notes.append(note)
        numbers.append(str(notes.index(note) + 1))
    word = "*partly*" if facts else "no"
    return f"{word}<sup>{','.join(numbers)}</sup>"


def _dialects() -> list[str]:
    parts = ["## By dialect\n"]
    for dialect in SUBMITTERS:
        parts.append(f"### {_plain(dialect)}\n")
        parts.append(_side("Handing in", dialect, SUBMITTERS) + _side("Doing the job", dialect, WORKERS))
    return parts


def _side(title: str, dialect: str, dialects: tuple[str, ...]) -> str:
    if dialect not in dialects:
        return ""
    submits = dialects is SUBMITTERS
    own = [
        loss
        for loss in LOSSES
        if dialect in (loss.submitters if submits else loss.workers)
        and (loss.submitters != SUBMITTERS if submits else loss.submitters == SUBMITTERS)
    ]
    lead = f"**{title}.** "
    if submits and dialect in HOW:
        lead += HOW[dialect] + " "
    if not own:
        return lead + "Nothing is lost.\n\n"
    lines = []
    for loss in own:
        lost = _lost(loss)
        lines.append(f"- {TITLES[loss.aspect]}{f' ({lost})' if lost else ''}: {_behind_colon(loss.reason)}\n")
    return f"{lead.rstrip()} Lost:\n\n{''.join(lines)}\n"


def _lost(loss: Loss) -> str:
    """The words of the sentences that do not hold; none if no sentence does."""
    return "" if len(loss.facts) == len(FACTS[loss.aspect]) else ", ".join(loss.facts)


def _behind_colon(sentence: str) -> str:
    """A sentence that does not begin with a name begins small there."""
    first, _, rest = sentence.partition(" ")
    return f"{first.lower()} {rest}" if first in ("A", "The", "No", "Nobody", "Workers") else sentence


def _plain(dialect: str) -> str:
    """The name of a dialect as it is written everywhere, without its link."""
    name = NAMES[dialect].partition("]")[0][1:]
    return name[0].upper() + name[1:] if dialect == "schedule" else name


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
