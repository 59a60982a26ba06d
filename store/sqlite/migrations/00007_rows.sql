-- The oldest tables that are read, see CONTRIBUTING.md. Times are microseconds
-- since 1970, UTC; NULL is the zero time. The keys of threads and runs grow in
-- commit order and are never given twice, also not after a drop. JSON columns are
-- NULL when empty.

-- +goose Up

-- The last keys. Unlike what AUTOINCREMENT keeps, they are read and written once
-- for all the new rows of a transaction.
CREATE TABLE given (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    thread INTEGER NOT NULL,
    run    INTEGER NOT NULL
) STRICT;

INSERT INTO given VALUES (1, 0, 0);

CREATE TABLE thread (
    key          INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    agent        TEXT    NOT NULL,
    worker       TEXT,             -- NULL: not claimed
    due_at       INTEGER,          -- NULL: nothing is due; as the others of due
    due_agent    TEXT,
    due_priority INTEGER,
    due_alone    INTEGER,
    body         BLOB    NOT NULL  -- all fields but the key, see pack.go
) STRICT;

CREATE INDEX thread_due ON thread (due_agent, due_alone, due_priority, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX thread_worker ON thread (worker) WHERE worker IS NOT NULL;

CREATE TABLE run (
    key        INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    thread     INTEGER NOT NULL REFERENCES thread (key),
    agent      TEXT    NOT NULL,
    parent     TEXT,               -- NULL: none
    status     TEXT    NOT NULL,
    queue      INTEGER,            -- 0: in the queue, 1: held, NULL: neither
    priority   INTEGER,            -- of a run in the queue
    place      INTEGER,            -- of a run that is in the queue or held
    not_before INTEGER,            -- of a held run
    first_seq  INTEGER NOT NULL,
    late_seq   INTEGER,            -- first_seq, if it may come after a greater one
    body       BLOB    NOT NULL    -- all fields but the key, see pack.go
) STRICT;

CREATE INDEX run_thread ON run (thread);
CREATE INDEX run_queue ON run (thread, priority, place) WHERE queue = 0;
CREATE INDEX run_held ON run (thread, not_before, place) WHERE queue = 1;
CREATE INDEX run_failed ON run (status) WHERE status = 'failed';
CREATE INDEX run_waiting ON run (status) WHERE status = 'waiting';
CREATE INDEX run_parent ON run (parent) WHERE parent IS NOT NULL;
-- The runs of a thread have growing keys and, nearly all of them, growing
-- first_seqs. Here is the first_seq of those that may come after a greater one.
CREATE INDEX run_late ON run (thread, late_seq) WHERE late_seq IS NOT NULL;

-- The entries that one commit appended to one thread, as JSON lines.
CREATE TABLE entry (
    thread    INTEGER NOT NULL REFERENCES thread (key),
    last_seq  INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    lines     BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX entry_thread ON entry (thread, last_seq);

CREATE TABLE submit_key (
    thread     INTEGER NOT NULL REFERENCES thread (key),
    key        TEXT    NOT NULL,
    digest     TEXT    NOT NULL,
    result     TEXT    NOT NULL,   -- JSON
    -- The thread's last entry when a key was written that made no run, and so does
    -- not go with one.
    joined_seq INTEGER,
    PRIMARY KEY (thread, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX submit_key_joined ON submit_key (thread, joined_seq) WHERE joined_seq IS NOT NULL;

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
    dead        INTEGER NOT NULL,
    owner       TEXT    NOT NULL DEFAULT '' -- the token of a remote worker
) STRICT;

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
    answer     TEXT,             -- JSON
    holds      INTEGER NOT NULL DEFAULT 0
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

-- Accounts. Of a secret only its SHA-256 is here.
CREATE TABLE token (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL UNIQUE,
    sum        TEXT    NOT NULL,
    scopes     TEXT,             -- JSON
    namespace  TEXT    NOT NULL,
    agents     TEXT,             -- JSON
    created_at INTEGER,
    used_at    INTEGER,
    revoked_at INTEGER
) STRICT;

-- How far the channels have read their platforms.
CREATE TABLE cursor (
    channel  TEXT NOT NULL,
    identity TEXT NOT NULL,
    position TEXT,               -- JSON
    moved_at INTEGER,
    PRIMARY KEY (channel, identity)
) STRICT, WITHOUT ROWID;

-- What agents have reserved in projects. Those of a project are read together, so
-- they lie together.
CREATE TABLE reservation (
    thread     INTEGER NOT NULL REFERENCES thread (key),
    fence      INTEGER NOT NULL,
    id         TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    holder     TEXT NOT NULL,
    owner      TEXT NOT NULL,
    shared     INTEGER NOT NULL,
    advisory   INTEGER NOT NULL,
    reason     TEXT NOT NULL,
    taken_at   INTEGER,
    expires_at INTEGER,
    PRIMARY KEY (thread, fence, id)
) STRICT, WITHOUT ROWID;
