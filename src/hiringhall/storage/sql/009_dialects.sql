-- The dialect of the worker of the latest attempt; empty: unknown.

ALTER TABLE jobs ADD COLUMN dialect BLOB NOT NULL DEFAULT x'';

ALTER TABLE history ADD COLUMN dialect BLOB NOT NULL DEFAULT x'';

ALTER TABLE quarantine ADD COLUMN dialect;
