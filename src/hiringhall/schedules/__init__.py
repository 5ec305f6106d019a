"""Jobs that come at their times: what is planned, where it is written down, and who fires it."""
