-- Counts the commits. A file beside the database keeps the count too, so that
-- a database which lost commits is recognised.

-- +goose Up
ALTER TABLE given ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
