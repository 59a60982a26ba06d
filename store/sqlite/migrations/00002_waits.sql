-- What runs that wait, children and purging need. All of it is NULL in the row
-- of a plain run, or not there.

-- +goose Up
ALTER TABLE thread ADD COLUMN state TEXT;        -- JSON: the text of each agent's state
ALTER TABLE thread ADD COLUMN deliver_to TEXT;

ALTER TABLE run ADD COLUMN caller TEXT;          -- JSON
ALTER TABLE run ADD COLUMN lineage TEXT;         -- JSON
ALTER TABLE run ADD COLUMN wait TEXT;            -- JSON
ALTER TABLE run ADD COLUMN resumes INTEGER;      -- NULL is 0
ALTER TABLE run ADD COLUMN asked INTEGER;        -- NULL is 0
ALTER TABLE run ADD COLUMN usage TEXT;           -- JSON
ALTER TABLE run ADD COLUMN progress TEXT;
-- The runs of a thread have growing keys and, nearly all of them, growing
-- first_seqs. Here is the first_seq of those that may come after a greater one.
ALTER TABLE run ADD COLUMN late_seq INTEGER;

CREATE INDEX run_parent ON run (parent) WHERE parent <> '';
CREATE INDEX run_late ON run (thread, late_seq) WHERE late_seq IS NOT NULL;

UPDATE run SET late_seq = first_seq WHERE key IN (
    SELECT key FROM (
        SELECT key, first_seq, max(first_seq) OVER (
            PARTITION BY thread ORDER BY key ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before FROM run
    ) WHERE before > first_seq
);

-- The thread's last entry when a key was written that made no run, and so does
-- not go with one.
ALTER TABLE submit_key ADD COLUMN joined_seq INTEGER;

CREATE INDEX submit_key_joined ON submit_key (thread, joined_seq) WHERE joined_seq IS NOT NULL;

UPDATE submit_key SET joined_seq = coalesce(json_extract(result, '$.seq'), 0)
    WHERE json_extract(result, '$.disposition') IS NOT 'queued';

CREATE TABLE ticket (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT    NOT NULL UNIQUE,
    thread     INTEGER NOT NULL REFERENCES thread (key),
    run        INTEGER NOT NULL REFERENCES run (key),
    name       TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    prompt     TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    digest     TEXT    NOT NULL,
    answers    INTEGER NOT NULL,
    state      TEXT    NOT NULL,
    expires_at INTEGER,
    decision   TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    decided_by TEXT    NOT NULL,
    decided_at INTEGER,
    arguments  TEXT,             -- JSON
    answer     TEXT              -- JSON
) STRICT;

CREATE INDEX ticket_run ON ticket (run);
CREATE INDEX ticket_thread ON ticket (thread);
CREATE INDEX ticket_open ON ticket (state) WHERE state = 'open';
CREATE INDEX ticket_open_thread ON ticket (thread) WHERE state = 'open';

CREATE TABLE definition (
    agent   TEXT NOT NULL,
    version TEXT NOT NULL,
    body    TEXT,                -- JSON
    PRIMARY KEY (agent, version)
) STRICT, WITHOUT ROWID;
