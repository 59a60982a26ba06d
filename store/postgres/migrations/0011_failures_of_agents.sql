-- The failures of an agent, newest first. There are few failures, so the index is built at once.
CREATE INDEX failure_agent ON failure (agent, run);
