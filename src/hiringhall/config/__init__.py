"""Settings: one typed schema behind hall.toml, the HALL_ variables and the flags.

The law: nothing is read at import, every setting is described once (`schema`), and a wrong one is
answered with where it stands, its key and what is allowed.
"""
