-- The paused agents.

-- +goose Up
CREATE TABLE pause (
    agent  TEXT    PRIMARY KEY,
    by     TEXT    NOT NULL, -- name of a token
    reason TEXT    NOT NULL,
    at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
