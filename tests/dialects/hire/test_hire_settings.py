"""What a person can set at the hire doors, and what the doors make of it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from hiringhall.config.quantities import Address, Words
from hiringhall.core.bidding.markets import Ask, Offer, Rules
from hiringhall.core.bidding.policies import POLICIES, best_skill, soonest
from hiringhall.core.peer import Peer
from hiringhall.core.workers import Worker
from hiringhall.dialects.hire.context import HireOptions
from hiringhall.doors.hire import HireBusDoorSettings, HireDoorSettings, rules
from hiringhall.doors.policies import find_policy

if TYPE_CHECKING:
    from pathlib import Path

    from hiringhall.doors.hire import HireSettings

ID = "6fa459ea-ee8a-3ca4-894e-db77e160355e"
NUMBERS = (
    "window_us",
    "travel_us",
    "buffer_us",
    "answer_us",
    "ahead_us",
    "perform_us",
    "pause_us",
    "pause_max_us",
    "promise_max_us",
)


@pytest.mark.parametrize("kind", [HireDoorSettings, HireBusDoorSettings])
def test_the_defaults_are_those_of_the_rules_and_of_the_options(kind: type[HireSettings]) -> None:
    settings = kind(id=ID)
    made, default = rules(settings), Rules(soonest)
    assert made.policy is soonest
    assert [getattr(made, name) for name in NUMBERS] == [getattr(default, name) for name in NUMBERS]
    bus = kind is HireBusDoorSettings
    assert settings.options("hall") == HireOptions(id=UUID(ID).bytes, bus=bus)
    assert list(settings.faults()) == []


@pytest.mark.parametrize("kind", [HireDoorSettings, HireBusDoorSettings])
def test_every_rule_and_option_follows_its_setting(kind: type[HireSettings]) -> None:
    settings = kind(
        policy="best_skill",
        window_s=1,
        travel_s=2,
        buffer_s=3,
        answer_s=4,
        ahead_s=5,
        perform_s=6,
        pause_s=7,
        pause_max_s=8,
        promise_max_s=9,
        types=Words(["bake", "Mühle"]),
        compact=True,
        posting_s=7,
        id=ID,
        log="all",
    )
    made = rules(settings)
    assert made.policy is best_skill
    assert [getattr(made, name) for name in NUMBERS] == [second * 1e6 for second in range(1, 10)]
    assert settings.options("hall") == HireOptions(
        id=UUID(ID).bytes,
        bus=kind is HireBusDoorSettings,
        compact=True,
        queues=frozenset([b"bake", "Mühle".encode()]),
        posting_us=7_000_000,
        log_all=True,
    )
    assert settings.queues == (("types", "bake"), ("types", "Mühle"))


@pytest.mark.parametrize(
    ("window_s", "coalesce_us"),
    [(0, 0), (0.0039, 0), (0.004, 1_000), (0.05, 12_500), (0.1, 20_000), (3600, 20_000)],
)
def test_announcements_are_coalesced_for_a_part_of_the_window(window_s: float, coalesce_us: int) -> None:
    assert rules(HireDoorSettings(window_s=window_s)).coalesce_us == coalesce_us


def test_settings_of_one_kind_of_door() -> None:
    assert not HireDoorSettings(direct=False).options("hall").direct
    bus = HireBusDoorSettings(peers_max=5, idle_s=6.0, subscribe=Address("127.0.0.1:9"))
    assert bus.options("hall").participants_max == 5
    assert bus.options("hall").idle_us == 6_000_000
    assert bus.addresses == (Address("127.0.0.1:7431"), Address("127.0.0.1:9"))


def test_a_hall_s_uuid_follows_from_its_name() -> None:
    one, again, other = (HireDoorSettings().options(name).id for name in ("north", "north", "south"))
    assert one == again != other
    assert HireBusDoorSettings().options("north").id == one


@pytest.mark.parametrize(
    ("settings", "setting", "problem"),
    [
        (HireDoorSettings(policy="cheapest"), "policy", '"cheapest" is not a policy; it takes soonest'),
        (HireDoorSettings(policy="no_such_module:choose"), "policy", "cannot be loaded"),
        (HireBusDoorSettings(policy="json:no_such"), "policy", "cannot be loaded"),
        (HireBusDoorSettings(policy="string:digits"), "policy", "is not a function"),
        (HireDoorSettings(pause_s=6.0), "pause_max_s", "must be at least pause_s, which is 6"),
        (HireDoorSettings(id="smith"), "id", '"smith" is not a valid UUID'),
        (HireDoorSettings(address=Address("0.0.0.0:7430")), "address", "can be reached"),
        (HireBusDoorSettings(subscribe=Address("0.0.0.0:7430")), "address", "can be reached"),
    ],
)
def test_what_is_wrong_is_named(settings: HireSettings, setting: str, problem: str) -> None:
    ((named, text),) = settings.faults()
    assert named == setting
    assert problem in text


# --- policies of one's own

OFFERS = [Offer(Worker(number, Peer(), 1), number, 10 - number) for number in (1, 2, 3)]
ASK = Ask(0, 1, 1)


def own(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, body: str) -> str:
    (folder / f"{name}.py").write_text(f"def choose(offers, ask):\n    {body}\n")
    monkeypatch.syspath_prepend(folder)
    return f"{name}:choose"


def test_the_known_policies_are_found_by_name() -> None:
    assert {name: find_policy(name) for name in POLICIES} == POLICIES


def test_a_policy_of_one_s_own_chooses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = find_policy(own(tmp_path, monkeypatch, "own_first", "return offers[ask.skill]"))
    assert policy(OFFERS, Ask(1, 1, 1)) is OFFERS[1]


def test_a_policy_that_fails_or_chooses_nobody_there_costs_a_line_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        failing = find_policy(own(tmp_path, monkeypatch, "own_failing", "return offers[1 // 0]"))
        assert failing(OFFERS, ASK) is OFFERS[2]
        dreaming = find_policy(own(tmp_path, monkeypatch, "own_dreaming", "return 'smith'"))
        assert dreaming(OFFERS, ASK) is OFFERS[2]
    assert [record.message.split(";")[0] for record in caplog.records] == [
        "the policy own_failing:choose failed",
        "the policy own_dreaming:choose chose 'smith', which is not an offer",
    ]


def test_a_policy_may_change_its_list_and_choose_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = find_policy(own(tmp_path, monkeypatch, "own_greedy", "offers.clear()"))
    offers = list(OFFERS)
    assert policy(offers, ASK) is None
    assert offers == OFFERS
