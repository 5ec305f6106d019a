"""The page that others write their clients from: every byte on it is what is heard and said."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiringhall.dialects.gearman_draft import wire

if TYPE_CHECKING:
    from stage.draft import DraftGuest, DraftHall

PAGE = (Path(__file__).parents[3] / "docs/protocols/gearman-draft.md").read_text()
LINE = re.compile(r"(\w+) +([<>]) ((?:[0-9A-F]{2} {1,2})+) *(\w+).*")
CONVERSATIONS = re.findall(r"^```conversation\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=["async", "sync"])
def test_the_examples_are_told_as_they_stand(hall: DraftHall, conversation: str) -> None:
    guests: dict[str, DraftGuest] = {}
    heard: dict[str, bytes] = {}
    for line in conversation.splitlines():
        read = LINE.fullmatch(line)
        assert read is not None, line
        name, direction, code, said = read.groups()
        packet = bytes.fromhex(code)
        guest = guests.setdefault(name, hall.guest())
        if direction == ">":
            guest.say(packet)
        else:
            heard[name] = heard.get(name, b"") + guest.reads()
            assert heard[name].startswith(packet), line
            heard[name] = heard[name][len(packet) :]
        if said in wire.NAMES.values():
            assert wire.NAMES[packet[4]] == said, line
    assert [guest.reads() for guest in guests.values()] == [b"", b""]
    assert set(heard.values()) == {b""}


def test_both_conversations_are_on_the_page() -> None:
    assert len(CONVERSATIONS) == 2


def test_every_packet_is_in_the_table() -> None:
    rows = re.findall(r"^\| 0x([0-9A-F]{2}) \| `(\w+)` \|", PAGE, re.MULTILINE)
    assert {int(number, 16): name for number, name in rows} == wire.NAMES


def test_every_error_is_in_the_table() -> None:
    rows = re.findall(r"^\| (\d+) \| .* \| (?:open|closed) \|$", PAGE, re.MULTILINE)
    errors = (
        wire.BAD_MAGIC,
        wire.PACKET_TOO_LARGE,
        wire.UNKNOWN_TYPE,
        wire.SERVER_ONLY,
        wire.BAD_BODY,
        wire.BAD_REQUEST,
        wire.TOO_LARGE,
        wire.UNKNOWN_HANDLE,
        wire.NO_TASK,
        wire.BUSY,
        wire.FULL,
        wire.STORE_DOWN,
        wire.CLOSING,
        wire.NOT_KEPT,
    )
    assert list(dict.fromkeys(int(number) for number in rows)) == list(errors), "in this order, once or more"
