-- Blobs of agents. Their content is in pieces, one transaction each, so that no commit is as long as a blob is large.
-- The pieces of an upload that no row of blob names are named by the row of their thread.

-- +goose Up
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
