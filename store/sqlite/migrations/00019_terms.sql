-- What limits a token, and for which one it acts, as JSON. NULL: nothing.

-- +goose Up
ALTER TABLE token ADD COLUMN terms TEXT;

-- The failures of an owner, newest first.
CREATE INDEX failure_owner ON failure (owner);
