"""A hall in memory, for the unit tests of the engine and of every dialect.

hall     the real scheduler, engine and memory store; a clock and a store in the hand of the test
guest    a peer with a session and a link that records what the engine writes
watcher  a peer without a dialect that records what it is told about jobs
"""
