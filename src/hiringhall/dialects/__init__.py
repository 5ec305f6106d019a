"""The worker protocols the hall speaks: one folder each, `wire.py` for frames, `session.py` for meaning.

The law: no I/O and no clock in here, and no dialect imports another.
"""
