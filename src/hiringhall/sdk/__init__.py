"""The Python SDK: job functions, handles of jobs, the connection. `hiringhall` exports its names."""
