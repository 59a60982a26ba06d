-- The server that a worker belongs to, and the jobs that this server does while the worker is alive.

-- +goose Up
ALTER TABLE worker ADD COLUMN node TEXT NOT NULL DEFAULT '';
ALTER TABLE worker ADD COLUMN duties TEXT; -- JSON list; NULL: none
