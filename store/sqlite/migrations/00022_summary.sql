-- The summary of ended runs: see store.Summary. Steps and times are in microseconds, the sums in the
-- units of store.Sums.

-- +goose Up
CREATE TABLE summary (
    step          INTEGER NOT NULL,
    agent         TEXT    NOT NULL, -- '' sums up all agents
    at            INTEGER NOT NULL,
    status        TEXT    NOT NULL,
    runs          INTEGER NOT NULL,
    delay         INTEGER NOT NULL,
    ran           INTEGER NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost          INTEGER NOT NULL,
    delays0       INTEGER NOT NULL,
    delays1       INTEGER NOT NULL,
    delays2       INTEGER NOT NULL,
    delays3       INTEGER NOT NULL,
    delays4       INTEGER NOT NULL,
    delays5       INTEGER NOT NULL,
    delays6       INTEGER NOT NULL,
    delays7       INTEGER NOT NULL,
    PRIMARY KEY (step, agent, at, status)
) STRICT, WITHOUT ROWID;

-- Old rows are dropped by it.
CREATE INDEX summary_at ON summary (step, at);
