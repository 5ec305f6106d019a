"""A client and a worker for each dialect, for users and for tests, built on its wire module.

The modules here are shared; the peers of one dialect do not use those of another.
"""
