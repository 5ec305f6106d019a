"""The durable store on PostgreSQL: one hall writes, through one connection."""

from hiringhall.storage.postgres.connecting import described, is_url
from hiringhall.storage.postgres.faults import Fenced
from hiringhall.storage.postgres.membership import Member
from hiringhall.storage.postgres.store import PostgresStore

__all__ = ["Fenced", "Member", "PostgresStore", "described", "is_url"]
