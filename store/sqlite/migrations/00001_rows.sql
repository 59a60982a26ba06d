-- Times are microseconds since 1970, UTC; NULL is the zero time. The keys of
-- threads and runs grow in commit order and are never given twice, also not
-- after a drop. JSON columns are NULL when empty.

-- +goose Up
CREATE TABLE thread (
    key          INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT    NOT NULL UNIQUE,
    agent        TEXT    NOT NULL,
    owner        TEXT    NOT NULL,
    parent       TEXT    NOT NULL,
    metadata     TEXT,             -- JSON
    current_run  TEXT    NOT NULL,
    worker       TEXT,             -- NULL: not claimed
    round        INTEGER NOT NULL,
    due_at       INTEGER,          -- NULL: nothing is due
    due_agent    TEXT    NOT NULL,
    due_priority INTEGER NOT NULL,
    due_alone    INTEGER NOT NULL,
    held_at      INTEGER,
    first_seq    INTEGER NOT NULL,
    last_seq     INTEGER NOT NULL,
    next_place   INTEGER NOT NULL,
    created_at   INTEGER,
    updated_at   INTEGER
) STRICT;

CREATE INDEX thread_due ON thread (due_agent, due_alone, due_priority, due_at)
    WHERE due_at IS NOT NULL;
CREATE INDEX thread_worker ON thread (worker) WHERE worker IS NOT NULL;

CREATE TABLE run (
    key           INTEGER PRIMARY KEY AUTOINCREMENT,
    id            TEXT    NOT NULL UNIQUE,
    thread        INTEGER NOT NULL REFERENCES thread (key),
    agent         TEXT    NOT NULL,
    agent_version TEXT    NOT NULL,
    mode          TEXT    NOT NULL,
    priority      INTEGER NOT NULL,
    place         INTEGER NOT NULL,
    submit_key    TEXT    NOT NULL,
    parent        TEXT    NOT NULL,
    max_attempts  INTEGER NOT NULL,
    first_seq     INTEGER NOT NULL,
    status        TEXT    NOT NULL,
    stop          TEXT    NOT NULL,
    stop_by       TEXT    NOT NULL,
    held          INTEGER NOT NULL,
    not_before    INTEGER,
    available_at  INTEGER,
    attempt       INTEGER NOT NULL,
    failures      INTEGER NOT NULL,
    crashes       INTEGER NOT NULL,
    lost          INTEGER NOT NULL,
    outages       INTEGER NOT NULL,
    outage_since  INTEGER,
    step          INTEGER NOT NULL,
    started       INTEGER NOT NULL,
    reason        TEXT    NOT NULL,
    created_at    INTEGER,
    started_at    INTEGER,         -- NULL: never started
    finished_at   INTEGER,
    origin        TEXT,            -- JSON, as the others from here
    last_step     TEXT,
    inputs        TEXT,
    steers        TEXT,
    error         TEXT,
    metadata      TEXT,
    reply         TEXT,            -- plain text
    options       TEXT,
    checkpoint    TEXT             -- last, because it may be long
) STRICT;

CREATE INDEX run_thread ON run (thread);
CREATE INDEX run_queue ON run (thread, priority, place)
    WHERE status = 'queued' AND started_at IS NULL AND held = 0;
CREATE INDEX run_held ON run (thread, not_before, place)
    WHERE status = 'queued' AND started_at IS NULL AND held = 1;
CREATE INDEX run_failed ON run (status) WHERE status = 'failed';
CREATE INDEX run_waiting ON run (status) WHERE status = 'waiting';

-- The entries that one commit appended to one thread, as JSON lines.
CREATE TABLE entry (
    thread    INTEGER NOT NULL REFERENCES thread (key),
    last_seq  INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    lines     BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX entry_thread ON entry (thread, last_seq);

CREATE TABLE submit_key (
    thread INTEGER NOT NULL REFERENCES thread (key),
    key    TEXT    NOT NULL,
    digest TEXT    NOT NULL,
    result TEXT    NOT NULL,       -- JSON
    PRIMARY KEY (thread, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE partial (
    run     INTEGER NOT NULL REFERENCES run (key),
    start   INTEGER NOT NULL,      -- bytes of the message's text before it
    attempt INTEGER NOT NULL,
    message TEXT    NOT NULL,
    text    TEXT    NOT NULL,
    PRIMARY KEY (run, start)
) STRICT, WITHOUT ROWID;

CREATE TABLE worker (
    id          TEXT    PRIMARY KEY,
    host        TEXT    NOT NULL,
    pid         INTEGER NOT NULL,
    local       INTEGER NOT NULL,
    agents      TEXT,              -- JSON
    started_at  INTEGER,
    lease_until INTEGER,
    dead        INTEGER NOT NULL
) STRICT;
