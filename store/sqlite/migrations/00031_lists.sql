-- One index for the lists by owner, by agent and by both: each row of a list by one of them is in one of a few groups
-- (owner, agent), and groups are merged (store/sqlite/groups.go). A new row writes one page instead of two.

-- +goose Up
CREATE INDEX run_owner_agent ON run (owner, agent);
CREATE INDEX thread_owner_agent ON thread (owner, agent);
DROP INDEX run_owner;
DROP INDEX run_agent;
DROP INDEX thread_owner;
DROP INDEX thread_agent;
