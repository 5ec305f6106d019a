"""When a hall may hand out, when it makes way, and when a standby takes over."""

from __future__ import annotations

import pytest

from hiringhall.cluster.reign import LEASE_US, Reign
from hiringhall.cluster.succession import COURTESY_US, Succession
from hiringhall.storage.postgres.members import Standing, Wish
from hiringhall.storage.postgres.outcome import find_fenced_outcome, find_outcome

SENT_US = 7_000_000


def standing(
    incarnation: int = 5, *, is_open: bool = True, beat: int = 1, wish: Wish | None = None
) -> Standing:
    return Standing(incarnation, is_open, "ann", "", beat, wish or Wish(), counted=True)


class TestReign:
    def test_nothing_is_handed_out_before_the_first_good_beat(self) -> None:
        assert Reign().hands_out_until_us == 0

    def test_it_hands_out_for_a_while_after_a_good_beat_was_sent(self) -> None:
        reign = Reign()
        reign.answered(SENT_US, 5, standing(), serving=True)
        assert (reign.hands_out_until_us, reign.ended) == (SENT_US + LEASE_US, "")

    def test_a_beat_that_does_not_count_ends_it(self) -> None:
        reign = Reign()
        reign.answered(SENT_US, 5, standing()._replace(counted=False), serving=True)
        assert reign.hands_out_until_us == 0
        assert "another process has joined as ann" in reign.ended

    def test_it_ends_when_another_incarnation_is_active(self) -> None:
        reign = Reign()
        reign.answered(SENT_US, 5, standing(), serving=True)
        reign.answered(SENT_US, 5, standing(6), serving=True)
        assert (reign.hands_out_until_us, reign.ended) == (0, "hall ann has taken over")

    def test_a_hall_whose_doors_are_not_open_yet_does_not_make_way(self) -> None:
        reign = Reign()
        reign.answered(SENT_US, 5, standing(wish=Wish(5, "bob")), serving=False)
        assert not reign.ended
        reign.answered(SENT_US, 5, standing(wish=Wish(5, "bob")), serving=True)
        assert reign.ended == "a switch-over to bob is asked for"


class TestSuccession:
    def test_a_closed_database_is_taken_at_once(self) -> None:
        assert Succession("bob").answered(1, standing(is_open=False))

    def test_it_is_left_to_the_member_that_is_asked_for_and_only_for_a_while(self) -> None:
        left = standing(is_open=False, wish=Wish(5, "cid"))
        assert Succession("cid").answered(1, left)
        bob = Succession("bob")
        assert not bob.answered(1, left)
        assert not bob.answered(COURTESY_US, left)
        assert bob.answered(COURTESY_US + 1, left)

    def test_what_was_seen_of_a_silent_hall_must_still_be_so(self) -> None:
        bob = Succession("bob")
        assert bob.predecessor(standing(beat=7)) == (5, 7)
        assert bob.predecessor(standing(beat=7, is_open=False)) == (5, None)

    def test_a_hall_that_beats_is_not_replaced(self) -> None:
        bob = Succession("bob")
        assert not any(bob.answered(beat * 500_000, standing(beat=beat)) for beat in range(1, 100))


@pytest.mark.parametrize(
    ("found", "outcome"), [(9, (True, False)), (8, (False, False)), (7, (False, True)), (0, (False, True))]
)
def test_the_number_of_the_last_batch_tells_what_became_of_a_commit(
    found: int, outcome: tuple[bool, bool]
) -> None:
    assert find_outcome(9, 8, found) == outcome


@pytest.mark.parametrize(("noted", "kept"), [(8, False), (9, True)])
def test_a_hall_that_was_replaced_is_told_what_became_of_its_last_commit(noted: int, kept: bool) -> None:
    assert find_fenced_outcome(9, noted).kept == kept
