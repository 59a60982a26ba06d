-- The owner of a ticket's thread, and failures by owner and error group, so that the lists of an owner are read
-- without rows of others. There are fewer tickets than runs, so the old ones get their owner at once.

-- +goose Up
ALTER TABLE ticket ADD COLUMN owner TEXT;
UPDATE ticket SET owner = (SELECT owner FROM thread WHERE key = ticket.thread);
CREATE INDEX ticket_owner ON ticket (owner);
CREATE INDEX ticket_open_owner ON ticket (owner) WHERE state = 'open';
CREATE INDEX failure_owner_group ON failure (owner, error_group);
