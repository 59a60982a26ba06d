-- When a ticket was opened. NULL: it is older than the column.

-- +goose Up
ALTER TABLE ticket ADD COLUMN opened_at INTEGER;
