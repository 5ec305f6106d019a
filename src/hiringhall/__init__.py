"""hiringhall: one hall where every job meets a worker, whatever protocol either speaks."""

__version__ = "0.1.0"
