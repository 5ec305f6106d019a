"""The turn: arrivals go to the core, changes go to the store, answers go out when they are true."""
