"""What the store without a disk has of its own: where its epochs begin."""

from __future__ import annotations

from hiringhall.core import ids
from hiringhall.storage.memory import FIRST_EPOCHS, MemoryStore


def test_each_process_begins_at_another_epoch() -> None:
    """So the handles of a hall that is gone name nothing in the next.

    By chance all are alike once in 10^23 runs.
    """
    epochs = {MemoryStore().load(0).epoch for _ in range(4)}
    assert len(epochs) > 1
    assert all(0 < epoch <= FIRST_EPOCHS for epoch in epochs)


def test_there_is_room_for_later_epochs() -> None:
    assert 2 * FIRST_EPOCHS <= ids.EPOCH_MAX


def test_a_first_epoch_that_is_given_is_the_first() -> None:
    store = MemoryStore(epoch=7)
    assert [store.load(0).epoch for _ in range(2)] == [7, 8]
