-- How far the channels have read their platforms.

-- +goose Up
CREATE TABLE cursor (
    channel  TEXT NOT NULL,
    identity TEXT NOT NULL,
    position TEXT,               -- JSON
    moved_at INTEGER,
    PRIMARY KEY (channel, identity)
) STRICT, WITHOUT ROWID;

ALTER TABLE ticket ADD COLUMN holds INTEGER NOT NULL DEFAULT 0;
