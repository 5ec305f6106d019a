"""Where durable jobs and the history are kept. The contract is `contract.py`; one suite tests every store."""
