"""Shell commands as jobs: their payload, the worker that runs them, and `hall run`."""
