-- The version of a worker's program.

-- +goose Up
ALTER TABLE worker ADD COLUMN version TEXT NOT NULL DEFAULT '';
