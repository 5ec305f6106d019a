"""Stores for durable jobs and the history. The contract is `contract.py`; one test suite covers every store."""
