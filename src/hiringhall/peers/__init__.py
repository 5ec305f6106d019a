"""A client and a worker of each dialect, for people and for tests, built on its wire and nothing else here."""
