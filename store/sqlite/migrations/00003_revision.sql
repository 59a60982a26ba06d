-- Counts the transactions that wrote a thread or anything that belongs to it.

-- +goose Up
ALTER TABLE thread ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
