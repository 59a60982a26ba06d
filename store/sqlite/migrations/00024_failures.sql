-- The failures of an agent, newest first.

-- +goose Up
CREATE INDEX failure_agent ON failure (agent);
