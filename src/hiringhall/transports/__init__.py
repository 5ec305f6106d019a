"""How bytes come in and go out. A transport knows sessions by their contract, never by their dialect."""
