"""ZeroMQ's wire protocol (ZMTP) at the doors of the hall, on its own event loop."""
