"""Settings: one typed schema for hall.toml, the HALL_ variables and the flags.

Invariant: nothing is read at import; every setting is described once (`schema`); the message about a wrong
one says where it is, its key and what is allowed.
"""
