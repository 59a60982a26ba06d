-- no transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_owner ON run (owner, key);
-- The runs without an owner, in the order of lists. PostgreSQL does not take that order from run_owner.
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_unowned ON run (key) WHERE owner IS NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS thread_owner ON thread (owner, key);
CREATE INDEX CONCURRENTLY IF NOT EXISTS thread_agent ON thread (agent, key);
