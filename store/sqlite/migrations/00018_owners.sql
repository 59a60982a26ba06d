-- The owner of a run's thread, so that the runs of an owner are found without those of others. NULL: the
-- run is older than the column.

-- +goose Up
ALTER TABLE run ADD COLUMN owner TEXT;
CREATE INDEX run_owner ON run (owner);
CREATE INDEX thread_owner ON thread (owner);
CREATE INDEX thread_agent ON thread (agent);

-- The failed runs with an error group. The columns are not columns of run, because the end of a completed
-- run would then write them too.
CREATE TABLE failure (
    run         INTEGER PRIMARY KEY, -- key
    at          INTEGER NOT NULL,    -- end of the run
    error_group TEXT    NOT NULL,
    agent       TEXT    NOT NULL,
    owner       TEXT    NOT NULL
) STRICT;
CREATE INDEX failure_group ON failure (error_group);

DROP TRIGGER run_dropped;
-- +goose StatementBegin
CREATE TRIGGER run_dropped AFTER DELETE ON run BEGIN
    DELETE FROM failure WHERE run = old.key;
    UPDATE tally SET n = n - 1
        WHERE what = old.status AND owner = (SELECT owner FROM thread WHERE key = old.thread) AND agent = old.agent;
    DELETE FROM tally
        WHERE what IN ('queued', 'running', 'waiting', 'completed', 'failed', 'cancelled')
        AND owner = (SELECT owner FROM thread WHERE key = old.thread) AND agent = old.agent AND n = 0;
END;
-- +goose StatementEnd
