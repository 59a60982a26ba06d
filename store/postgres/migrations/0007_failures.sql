-- The failures of an owner, newest first. There are few failures, so the index is built at once.
CREATE INDEX failure_owner ON failure (owner, run);
