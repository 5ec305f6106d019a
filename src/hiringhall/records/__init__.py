"""The history as a Python API: the outcome of every durable job, and the state of the unfinished ones.

    >>> from hiringhall.records import History
    >>> with History(data_folder) as history:
    ...     for record in history.find(queue="resize", state="failed", limit=10):
    ...         print(record.key, record.code, record.result)
    b'photo-7' 3 b'not a picture'
    >>> with History(data_folder) as history:
    ...     record = history.get(handle="H:hall:68719476737")
    ...     record.state, record.result, record.attempts
    ('done', b'320x200', 1)

`data_folder` is a hall's data folder; a hall may be running on it or not. Invariant: it only reads, and holds
one page of the history in memory, never all of it.
"""

from hiringhall.records.history import History
from hiringhall.records.record import ENDED_STATES, LIVE_STATES, STATES, Attempt, OutputLine, Record
from hiringhall.records.writing import FORMATS, MissingFormat, save_records, write_records
from hiringhall.storage.history_contract import EndCount

__all__ = [
    "ENDED_STATES",
    "FORMATS",
    "LIVE_STATES",
    "STATES",
    "Attempt",
    "EndCount",
    "History",
    "MissingFormat",
    "OutputLine",
    "Record",
    "save_records",
    "write_records",
]
