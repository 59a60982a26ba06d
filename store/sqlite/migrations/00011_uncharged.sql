-- A worker whose process crashed, in a goroutine of no run: the claims it held count as lost, not as crashes.

-- +goose Up
ALTER TABLE worker ADD COLUMN uncharged INTEGER NOT NULL DEFAULT 0;
