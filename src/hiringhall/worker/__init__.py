"""Workers of the SDK: a supervisor that talks to the hall, and child processes that run the functions.

The supervisor (`supervisor.py`) never imports the user's code. It has a pool (`pool.py`) for plain functions
and one for async functions; a pool has a connection to the hall (`link.py`) and child processes (`process.py`).
A child (`child.py`) imports the module, tells what it can run, and runs one job after another (`loops.py`).
"""
