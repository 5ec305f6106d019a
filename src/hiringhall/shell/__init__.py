"""Shell commands as jobs: their payload, and the worker that runs them."""
