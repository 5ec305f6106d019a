"""What people type: `hall` and `hall-gearmand`.

The law: a person's mistake, and any trouble of the machine, is answered in one line on stderr, never by a
traceback. Exit code 2: the settings or the command line are wrong. 1: the hall cannot open or go on.
"""
