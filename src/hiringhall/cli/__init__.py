"""The command line: `hall` and `hall-gearmand`.

Invariant: a user's mistake or an error of the system gives one line on stderr, never a traceback. Exit code 2:
the settings or the command line are wrong. 1: the hall cannot start or continue.
"""
