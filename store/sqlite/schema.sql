-- The tables of a new file, written by go test ./store/sqlite -update from the migrations.

CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);

CREATE TABLE given (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    order_name TEXT NOT NULL DEFAULT '', removed_row INTEGER NOT NULL DEFAULT 0, removed_thread INTEGER NOT NULL DEFAULT 0, removed_seq INTEGER NOT NULL DEFAULT 0) STRICT;

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
, due_owner TEXT, owner      TEXT NOT NULL DEFAULT '', deliver_to TEXT, deleted    INTEGER, entry_row INTEGER NOT NULL DEFAULT 0, entry_seq INTEGER NOT NULL DEFAULT 0) STRICT;

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
, owner TEXT) STRICT;

CREATE TABLE entry (
    thread    INTEGER NOT NULL REFERENCES thread (key),
    last_seq  INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    lines     BLOB    NOT NULL
, previous INTEGER) STRICT;

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
, uncharged INTEGER NOT NULL DEFAULT 0, node TEXT NOT NULL DEFAULT '', duties TEXT, version TEXT NOT NULL DEFAULT '') STRICT;

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
, opened_at INTEGER, owner TEXT) STRICT;

CREATE TABLE definition (
    agent   TEXT NOT NULL,
    version TEXT NOT NULL,
    body    TEXT,                -- JSON
    PRIMARY KEY (agent, version)
) STRICT, WITHOUT ROWID;

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
, quotas  TEXT, terms TEXT) STRICT;

CREATE TABLE cursor (
    channel  TEXT NOT NULL,
    identity TEXT NOT NULL,
    position TEXT,               -- JSON
    moved_at INTEGER,
    PRIMARY KEY (channel, identity)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE tally (
    what  TEXT    NOT NULL,
    owner TEXT    NOT NULL,
    agent TEXT    NOT NULL,
    n     INTEGER NOT NULL, thread INTEGER, run INTEGER, revision INTEGER, entry_row INTEGER, threads INTEGER, workers INTEGER, notifications INTEGER,
    PRIMARY KEY (what, owner, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE failure (
    run         INTEGER PRIMARY KEY, -- key
    at          INTEGER NOT NULL,    -- end of the run
    error_group TEXT    NOT NULL,
    agent       TEXT    NOT NULL,
    owner       TEXT    NOT NULL
) STRICT;

CREATE TABLE pause (
    agent  TEXT    PRIMARY KEY,
    by     TEXT    NOT NULL, -- name of a token
    reason TEXT    NOT NULL,
    at     INTEGER NOT NULL
, probe INTEGER) STRICT, WITHOUT ROWID;

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

CREATE TABLE index_state (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    last_id    INTEGER NOT NULL,
    order_name TEXT    NOT NULL,
    entry_row  INTEGER NOT NULL,
    thread     INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    until      INTEGER -- NULL: no entry
) STRICT;

CREATE TABLE indexed (
    id      INTEGER PRIMARY KEY,
    thread  INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    content INTEGER NOT NULL
) STRICT;

CREATE VIRTUAL TABLE word USING fts5(words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');

CREATE TABLE deadline (
    run INTEGER PRIMARY KEY, -- key
    at  INTEGER NOT NULL
) STRICT;

CREATE TABLE blob (
    thread     INTEGER NOT NULL REFERENCES thread (key),
    agent      TEXT NOT NULL,
    name       TEXT NOT NULL,
    upload     TEXT NOT NULL,
    size       INTEGER NOT NULL,
    digest     TEXT NOT NULL,
    written_at INTEGER NOT NULL,
    PRIMARY KEY (thread, agent, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE blob_piece (
    thread INTEGER NOT NULL REFERENCES thread (key),
    upload TEXT NOT NULL,
    number INTEGER NOT NULL, -- from 0
    body   BLOB NOT NULL,
    PRIMARY KEY (thread, upload, number)
) STRICT;

CREATE TABLE meter (
    key           TEXT PRIMARY KEY,
    at            INTEGER,
    count         INTEGER NOT NULL,
    usd           INTEGER NOT NULL, -- micro-dollars, as raised_usd
    tokens        INTEGER NOT NULL,
    turns         INTEGER NOT NULL,
    raised_usd    INTEGER NOT NULL,
    raised_tokens INTEGER NOT NULL,
    raised_turns  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX thread_due ON thread (due_agent, due_alone, due_priority, due_at) WHERE due_at IS NOT NULL;

CREATE INDEX run_thread ON run (thread);

CREATE INDEX run_queue ON run (thread, priority, place) WHERE queue = 0;

CREATE INDEX run_held ON run (thread, not_before, place) WHERE queue = 1;

CREATE INDEX run_parent ON run (parent) WHERE parent IS NOT NULL;

CREATE INDEX run_late ON run (thread, late_seq) WHERE late_seq IS NOT NULL;

CREATE INDEX submit_key_joined ON submit_key (thread, joined_seq) WHERE joined_seq IS NOT NULL;

CREATE INDEX ticket_run ON ticket (run);

CREATE INDEX ticket_thread ON ticket (thread);

CREATE INDEX ticket_open ON ticket (state) WHERE state = 'open';

CREATE INDEX ticket_open_thread ON ticket (thread) WHERE state = 'open';

CREATE INDEX thread_due_owner ON thread (due_agent, due_alone, due_owner, due_priority, due_at)
	WHERE due_owner IS NOT NULL;

CREATE INDEX thread_deliver ON thread (deliver_to) WHERE deliver_to IS NOT NULL;

CREATE INDEX thread_deleted ON thread (deleted) WHERE deleted IS NOT NULL;

CREATE INDEX run_status ON run (status) WHERE status <> 'completed' AND status <> 'running';

CREATE INDEX failure_group ON failure (error_group);

CREATE INDEX failure_owner ON failure (owner);

CREATE INDEX summary_at ON summary (step, at);

CREATE UNIQUE INDEX indexed_entry ON indexed (thread, seq);

CREATE INDEX failure_agent ON failure (agent);

CREATE INDEX ticket_owner ON ticket (owner);

CREATE INDEX ticket_open_owner ON ticket (owner) WHERE state = 'open';

CREATE INDEX failure_owner_group ON failure (owner, error_group);

CREATE INDEX deadline_at ON deadline (at);

CREATE INDEX run_owner_agent ON run (owner, agent);

CREATE INDEX thread_owner_agent ON thread (owner, agent);

CREATE UNIQUE INDEX entry_thread ON entry (thread, last_seq)
	WHERE (previous IS NULL OR last_seq / 32 > (first_seq - 1) / 32);

CREATE TRIGGER thread_dropped AFTER DELETE ON thread BEGIN
    UPDATE tally SET n = n - 1 WHERE what = 'thread' AND owner = old.owner;
    DELETE FROM tally WHERE what = 'thread' AND owner = old.owner AND n = 0;
END;

CREATE TRIGGER run_dropped AFTER DELETE ON run BEGIN
    DELETE FROM failure WHERE run = old.key;
    UPDATE tally SET n = n - 1
        WHERE what = old.status AND owner = (SELECT owner FROM thread WHERE key = old.thread) AND agent = old.agent;
    DELETE FROM tally
        WHERE what IN ('queued', 'running', 'waiting', 'completed', 'failed', 'cancelled')
        AND owner = (SELECT owner FROM thread WHERE key = old.thread) AND agent = old.agent AND n = 0;
END;

CREATE TRIGGER indexed_dropped AFTER DELETE ON indexed BEGIN
    DELETE FROM word WHERE rowid = old.id;
END;

CREATE TRIGGER entry_dropped AFTER DELETE ON entry BEGIN
    DELETE FROM indexed WHERE thread = old.thread AND seq BETWEEN old.first_seq AND old.last_seq;
END;

CREATE TRIGGER entry_cut AFTER UPDATE OF first_seq ON entry BEGIN
    DELETE FROM indexed WHERE thread = new.thread AND seq BETWEEN old.first_seq AND new.first_seq - 1;
END;

INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (7, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (8, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (9, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (10, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (11, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (12, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (13, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (14, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (15, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (16, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (17, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (18, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (19, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (20, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (21, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (22, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (23, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (24, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (25, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (26, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (27, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (28, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (29, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (30, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (31, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (32, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (33, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (34, 1);
INSERT INTO given VALUES (1, lower(hex(randomblob(6))), 0, 0, 0);
INSERT INTO tally VALUES ('', '', '', 0, 0, 0, 0, 0, NULL, NULL, NULL);
