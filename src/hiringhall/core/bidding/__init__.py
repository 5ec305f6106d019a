"""Jobs that are announced, workers that bid for them, and workers that were hired."""
