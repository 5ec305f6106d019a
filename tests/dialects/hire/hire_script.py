"""The transcripts as steps, and their lines in bytes: long, or compact as another hand would write it."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from hiringhall.core.bidding.markets import Rules
from hiringhall.core.bidding.policies import soonest
from hiringhall.core.limits import SECOND_US
from hiringhall.dialects.hire.session import HireOptions

HALL: Final = "5e1d8c30-0f55-4b0e-9a47-2bc168117d02"
UUIDS: Final = {
    "hall": HALL,
    "smith": "a0000000-0000-4000-8000-000000000001",
    "baker": "a0000000-0000-4000-8000-000000000002",
    "tower": "b0000000-0000-4000-8000-0000000000ff",
    "castle": "b0000000-0000-4000-8000-00000000fffe",
    "task": "16fd2706-8baf-433b-82eb-8c7fada847da",
    "miller": "5e1d8c30-0f55-4b0e-8000-001000000001",
    "job1": "5e1d8c30-0f55-4b0e-0000-001000000001",
    "job2": "5e1d8c30-0f55-4b0e-0000-001000000002",
}
LETTERS: Final = {
    "ANNOUNCE": "N",
    "AVAIL": "A",
    "HIRE": "H",
    "START": "S",
    "PERFORM": "P",
    "PERFORMING": "G",
    "DISMISS": "D",
    "QUIT": "Q",
}
IDS: Final = {"HIRE": 1, "DISMISS": 1}
"""Which field of a verb is the job's id; of all others the first."""


class Step(NamedTuple):
    """One line of a transcript. Something is said if `verb` is set; otherwise something is done."""

    words: list[str]
    speaker: str = ""
    sign: str = ""
    to: str = ""
    verb: str = ""
    fields: str = ""

    @property
    def acts(self) -> bool:
        """A peer does something; else it is what comes of that."""
        return not self.verb or (self.sign == ">" and self.speaker != "hall")

    def text(self, *, compact: bool) -> bytes:
        return (_compact if compact else _long)(self.speaker, self.verb, self.fields.split(":"))


class Script(NamedTuple):
    """One dialogue."""

    title: str
    place: str
    """Where alone it can be played: tcp, bus or memory; empty: everywhere."""
    settings: dict[str, float]
    steps: list[Step]


def _long(speaker: str, verb: str, fields: list[str]) -> bytes:
    return f"{UUIDS[speaker]} {verb} {':'.join(UUIDS.get(field, field) for field in fields)}".encode()


def _compact(speaker: str, verb: str, fields: list[str]) -> bytes:
    written = [short(UUIDS[field]) if field in UUIDS else field for field in fields]
    place = IDS.get(verb, 0)
    if fields[place] not in UUIDS:
        written[place] = "." + fields[place]
    return f"!{short(UUIDS[speaker])}{LETTERS[verb]}{':'.join(written)}".encode()


def short(uuid: str) -> str:
    return urlsafe_b64encode(UUID(uuid).bytes).decode().rstrip("=")


def line(speaker: str, verb: str, *fields: str) -> str:
    """A line in its long form, with names for UUIDs."""
    return _long(speaker, verb, list(fields)).decode()


def options_of(settings: dict[str, float], *, bus: bool, compact: bool) -> HireOptions:
    posting_us = round(settings.get("posting_s", 300) * SECOND_US)
    return HireOptions(id=UUID(HALL).bytes, bus=bus, compact=compact, posting_us=posting_us)


def rules_of(settings: dict[str, float]) -> Rules:
    """Those of the transcripts' settings, the others as a door has them."""

    def us(name: str, default_s: float) -> int:
        return round(settings.get(name, default_s) * SECOND_US)

    return Rules(
        soonest,
        window_us=us("window_s", 0.1),
        buffer_us=us("buffer_s", 5),
        answer_us=us("answer_s", 5),
        ahead_us=us("ahead_s", 0),
        perform_us=us("perform_s", 10),
    )


def _read_step(line: str) -> Step:
    words = line.split()
    if len(words) == 5 and words[1] in (">", "*"):
        return Step(words, *words)
    return Step(words)


def read_scripts() -> list[Script]:
    _, *sections = (Path(__file__).parent / "transcripts.txt").read_text().split("\n== ")
    scripts = []
    for section in sections:
        title, *lines = section.strip().splitlines()
        place = ""
        settings = {}
        steps = []
        for line in lines:
            words = line.split()
            if words[1:] == ["only"]:
                place = words[0]
            elif words[0] == "set":
                settings[words[1]] = float(words[2])
            else:
                steps.append(_read_step(line))
        scripts.append(Script(title, place, settings, steps))
    return scripts


SCRIPTS: Final = read_scripts()
