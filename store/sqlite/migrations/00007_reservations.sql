-- What agents have reserved in projects. Those of a project are read together, so
-- they lie together.

-- +goose Up
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
