"""The durable store on PostgreSQL: one hall writes, through one connection."""

from hiringhall.storage.postgres.faults import Fenced
from hiringhall.storage.postgres.membership import Member
from hiringhall.storage.postgres.store import PostgresStore

__all__ = ["Fenced", "Member", "PostgresStore"]
