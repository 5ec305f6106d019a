"""A client and a worker of each dialect, for people and for tests, built on its wire.

`stream` and `threads` serve several of them; no dialect's peers know another's.
"""
