"""Jobs that belong together under one name."""
