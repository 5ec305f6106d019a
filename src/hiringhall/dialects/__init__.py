"""The protocols of the hall, one folder each: `wire.py` encodes and decodes, `session.py` acts.

Invariant: there is no I/O and no clock in here, and no dialect imports another.
"""
