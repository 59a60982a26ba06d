-- Running runs are found through the workers of their threads, so that the start and the end of a run
-- touch one index less.

-- +goose Up
DROP INDEX run_status;
CREATE INDEX run_status ON run (status) WHERE status <> 'completed' AND status <> 'running';
