"""The page that others write their workers from: every byte on it is what we read and write."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiringhall.core.limits import Limits
from hiringhall.dialects.wmp import wire
from hiringhall.dialects.wmp.session import WmpOptions

if TYPE_CHECKING:
    from stage.wmp import WmpHall

PAGE = (Path(__file__).parents[3] / "docs/protocols/wmp.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def read_message(block: str) -> bytes:
    """Hex at the left, the same as text at the right."""
    body = b""
    for line in block.splitlines():
        code, text = re.fullmatch(r"((?:[0-9a-f]{2} )*[0-9a-f]{2}) {2,}(.+)", line).groups()  # type: ignore[union-attr]
        row = bytes.fromhex(code)
        assert row == text.replace("\\n", "\n").encode(), line
        body += row
    return body


def read_frames(block: str) -> dict[str, list[bytes]]:
    """Who has which frames, in the order of the page."""
    first, rows = re.fullmatch(r"body +\[([0-9a-f\s]+)\]\n(.*)", block, re.DOTALL).groups()  # type: ignore[union-attr]
    body = bytes.fromhex(first)
    table = {}
    for row in rows.splitlines():
        label, cells = re.fullmatch(r"(.*?)  +((?:\[[0-9a-f ]*\] +)+)body", row).groups()  # type: ignore[union-attr]
        table[label] = [bytes.fromhex(cell) for cell in re.findall(r"\[([0-9a-f ]*)\]", cells)] + [body]
    return table


MESSAGES = [read_message(block) for block in blocks("message")]
READY, WAKE, GIVE = [read_frames(block) for block in blocks("frames")]


@pytest.mark.parametrize("body", MESSAGES)
def test_each_message_is_read_and_written_as_it_stands(body: bytes) -> None:
    message = wire.parse_body(body)
    assert wire.encode_body(message.command, message.headers, message.payload) == body


def test_every_command_has_its_example_in_the_order_of_the_page() -> None:
    assert [wire.parse_body(body).command for body in MESSAGES] == [
        wire.READY,
        wire.WAKE,
        wire.GIVE,
        wire.TAKE,
        wire.NO,
        wire.STATUS,
        wire.DONE,
        wire.DONE,
        wire.DONE,
        wire.CANCEL,
    ]


def test_the_examples_are_one_story_that_the_hall_tells(hall: WmpHall) -> None:
    ready, wake, give, take, no, status, done, _, _, cancel = MESSAGES
    client, worker = hall.client(), hall.path()
    job = client.submits(b"resize", b"an image", b"image-7")
    hall.end()

    def answer(body: bytes) -> list[bytes]:
        return worker.say_bytes(body).messages()

    assert answer(ready) == [wake]
    assert answer(give) == [take]
    assert answer(status) == []
    assert client.hears() == [("progress", b"3/8"), ("chunk", b"first row")]
    assert answer(done) == []
    assert client.hears() == [("done 0", b"a smaller image")]
    assert job.worker_name == b"blade-7"
    assert answer(give) == [no]
    assert answer(status) == [cancel]
    assert hall.context.dropped == 0


@pytest.mark.parametrize(
    ("index", "heard"), [(7, [("failed 3", b"not an image")]), (8, [])], ids=["failed", "declined"]
)
def test_the_other_ways_to_end(hall: WmpHall, index: int, heard: list[tuple[str, bytes]]) -> None:
    client = hall.client()
    client.submits(b"resize", b"an image", b"image-7")
    hall.path().say_bytes(MESSAGES[0]).is_woken(b"resize").say_bytes(MESSAGES[2]).say_bytes(MESSAGES[index])
    assert client.hears() == heard
    assert (hall.stale, hall.context.dropped, hall.scheduler.queue(b"resize").leased) == (0, 0, 0)


# --- the way through two devices, by the rules of the page


def device_up(identity: bytes, frames: list[bytes]) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """What its ROUTER receives, the hop that is named, and what the DEALER sends."""
    parts = wire.split_frames(frames)
    assert parts is not None
    to, come, body = parts
    return [identity, *frames], to[:1], wire.join_frames(to[1:], [identity, *come], body)


def device_down(hop: bytes, frames: list[bytes]) -> list[bytes]:
    """What its ROUTER sends."""
    parts = wire.split_frames(frames)
    assert parts is not None
    to, come, body = parts
    return wire.join_frames(to, [hop, *come], body)


@pytest.mark.parametrize(("table", "hops"), [(READY, [[], []]), (GIVE, [[b"b0"], [b"a0"]])])
def test_the_way_up(table: dict[str, list[bytes]], hops: list[list[bytes]]) -> None:
    sent, at_b, from_b, at_a, from_a, at_hall = table.values()
    received, hop, forwarded = device_up(b"w1", sent)
    assert (received, hop, forwarded) == (at_b, hops[0], from_b)
    received, hop, forwarded = device_up(b"dB", forwarded)
    assert (received, hop, forwarded) == (at_a, hops[1], from_a)
    assert at_hall == [b"dA", *forwarded]


def test_the_way_down() -> None:
    sent, at_a, from_a, at_b, from_b, at_worker = WAKE.values()
    route = wire.answer_route(READY["hall's ROUTER receives"][:-1])
    assert route is not None
    assert sent == [*route, sent[-1]]
    assert sent[1:] == at_a
    assert device_down(b"a0", at_a) == from_a
    assert from_a[1:] == at_b
    assert device_down(b"b0", at_b) == from_b
    assert from_b[1:] == at_worker
    # Whoever receives a message answers it with to = come.
    parts = wire.split_frames(at_worker)
    assert parts is not None
    assert GIVE["worker sends"] == wire.join_frames(parts[1], [], GIVE["worker sends"][-1])


def test_the_path_of_give_is_that_of_ready() -> None:
    assert GIVE["hall's ROUTER receives"][:-1] == READY["hall's ROUTER receives"][:-1]


def test_the_bodies_on_the_way_are_messages() -> None:
    commands = [wire.parse_body(next(iter(table.values()))[-1]).command for table in (READY, WAKE, GIVE)]
    assert commands == [wire.READY, wire.WAKE, wire.GIVE]


STEP_US = WmpOptions().wake_step_us


@pytest.mark.parametrize(
    "row",
    [
        f"| hops of `to`, and of `come` | {wire.HOPS_MAX} |",
        f"| a hop, an identity, a manager's name, a job's name | {wire.HOP_BYTES_MAX} bytes |",
        f"| a role, a key, a worker's name | {wire.NAME_BYTES_MAX:,} bytes; a hall's roles are as long as",
        f"`queue_name_bytes_max` allows ({Limits().queue_name_bytes_max}) |",
        f"| the head of a body | {wire.HEAD_BYTES_MAX:,} bytes |",
        f"| managers that a job may have passed | hall {wire.PASSED_MANAGERS_MAX} |",
        f"| roles of one READY | hall {WmpOptions().roles_max} |",
        f"| a number | {wire.NUMBER_DIGITS_MAX} digits |",
        f"| wake step: from WAKE until others are woken too | manager | {STEP_US // 1000} ms |",
        f"for {WmpOptions().decline_us // 1000} ms, and twice as long each time in a row, up to 10 s.",
        f"| wake time: from WAKE to GIVE | manager | {Limits().wake_us / 1_000_000} s |",
        f"| `manager` | `{WmpOptions().manager.decode()}` | the name of the hall in `manager`",
        f"| `lease_s` | {WmpOptions().lease_us // 1_000_000} | silence about a job",
        f"| `expire_s` | {WmpOptions().expire_us // 1_000_000} | silence of a path",
    ],
)
def test_limits_and_defaults_are_those_of_the_code(row: str) -> None:
    assert row in PAGE
    assert wire.JOB_BYTES_MAX == wire.HOP_BYTES_MAX
