-- When a run may start to find out whether an agent works again that the server has paused. NULL: a person paused it.

-- +goose Up
ALTER TABLE pause ADD COLUMN probe INTEGER;
