-- When a run may start to find out whether an agent works again that the server has paused. NULL: a person paused it.
-- Servers of the version before write rows without it, and start no run of a paused agent.
ALTER TABLE pause ADD COLUMN probe bigint;
