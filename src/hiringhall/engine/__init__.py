"""The turn: what arrived goes to the core, the changes go to the store, the answers go out when they are true."""
