-- Jobs that belong to a flow have its name, and all their parents as msgpack, met or not, so that the flow can be drawn
-- after they ended. Rows of other jobs have NULL in both, and are in neither index.

ALTER TABLE jobs ADD COLUMN flow BLOB;
ALTER TABLE jobs ADD COLUMN all_parents BLOB;

ALTER TABLE history ADD COLUMN flow BLOB;
ALTER TABLE history ADD COLUMN all_parents BLOB;

ALTER TABLE quarantine ADD COLUMN flow;
ALTER TABLE quarantine ADD COLUMN all_parents;

CREATE INDEX history_by_flow ON history (flow, id) WHERE flow IS NOT NULL;

-- When each flow began and ended (0: it has live jobs), and how many of its jobs have ended how.
CREATE TABLE flows (
    name BLOB PRIMARY KEY,
    created_us INTEGER,
    ended_us INTEGER,
    done INTEGER,
    failed INTEGER,
    cancelled INTEGER
) WITHOUT ROWID;
