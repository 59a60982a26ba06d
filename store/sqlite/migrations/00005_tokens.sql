-- Accounts. Of a secret only its SHA-256 is here.

-- +goose Up
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

-- The name of the token that a remote worker works with.
ALTER TABLE worker ADD COLUMN owner TEXT NOT NULL DEFAULT '';
