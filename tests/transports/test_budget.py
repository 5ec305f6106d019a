"""The budget of what all peers keep."""

from __future__ import annotations

from hiringhall.transports.budget import NOTED_BYTES_MIN, Budget, BufferedLink

MIB = 1 << 20


class Keeper(BufferedLink):
    """A link that keeps what the story says."""

    def __init__(self, kept: int) -> None:
        super().__init__()
        self.kept = kept
        self.dropped = ""

    def kept_bytes(self) -> int:
        return self.kept

    def drop(self, text: str) -> None:
        self.dropped = text


def crowd(budget: Budget, *sizes: int) -> list[Keeper]:
    keepers = [Keeper(size) for size in sizes]
    for keeper in keepers:
        budget.note(keeper)
    return keepers


def test_the_greediest_goes_first_and_only_until_there_is_room() -> None:
    budget = Budget(16 * MIB)
    small, great, middle, last = crowd(budget, MIB, 8 * MIB, 5 * MIB, 3 * MIB)
    text = f"{8 * MIB} bytes were buffered for it, more than {16 * MIB} for all peers (buffer_bytes_max)"
    assert great.dropped == text
    assert not small.dropped
    assert not middle.dropped
    assert not last.dropped
    assert budget.noted_bytes == 9 * MIB


def test_within_the_budget_nobody_is_dropped() -> None:
    budget = Budget(16 * MIB)
    assert not any(keeper.dropped for keeper in crowd(budget, 8 * MIB, 8 * MIB))


def test_before_somebody_is_dropped_it_is_looked_what_is_still_kept() -> None:
    budget = Budget(16 * MIB)
    first, second = crowd(budget, 8 * MIB, 8 * MIB)
    first.kept = MIB
    third = crowd(budget, 4 * MIB)[0]
    assert not any(keeper.dropped for keeper in (first, second, third))
    assert budget.noted_bytes == 13 * MIB


def test_who_keeps_little_is_not_noted() -> None:
    budget = Budget(16 * MIB)
    (keeper,) = crowd(budget, NOTED_BYTES_MIN - 1)
    assert budget.noted == {}
    keeper.kept = NOTED_BYTES_MIN
    budget.note(keeper)
    assert budget.noted_bytes == NOTED_BYTES_MIN
    keeper.kept = 0
    budget.note(keeper)
    assert (budget.noted, budget.noted_bytes) == ({}, 0)


def test_who_is_gone_makes_room() -> None:
    budget = Budget(16 * MIB)
    gone, stays = crowd(budget, 10 * MIB, 5 * MIB)
    budget.forget(gone)
    budget.forget(gone)
    assert budget.noted_bytes == 5 * MIB
    crowd(budget, 11 * MIB)
    assert not stays.dropped


def test_of_many_who_keep_the_same_as_many_are_dropped_as_must_be() -> None:
    budget = Budget(16 * MIB)
    keepers = crowd(budget, *[MIB] * 17)
    assert sum(bool(keeper.dropped) for keeper in keepers) == 3, "until seven eighths are kept"
