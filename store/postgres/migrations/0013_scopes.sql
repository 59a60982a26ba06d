-- The owner of a ticket's thread, and failures by owner and error group, so that the lists of an owner are read
-- without rows of others. There are fewer tickets than runs, so the old ones get their owner, and the indexes are
-- built, at once.
ALTER TABLE ticket ADD COLUMN owner text COLLATE "C";

-- Programs that do not know the column write none.
CREATE FUNCTION set_ticket_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	SELECT t.owner INTO NEW.owner FROM thread t WHERE t.key = NEW.thread;
	RETURN NEW;
END $$;
CREATE TRIGGER ticket_without_owner BEFORE INSERT ON ticket FOR EACH ROW WHEN (NEW.owner IS NULL) EXECUTE FUNCTION set_ticket_owner();

UPDATE ticket k SET owner = t.owner FROM thread t WHERE t.key = k.thread;
CREATE INDEX ticket_owner ON ticket (owner, key);
CREATE INDEX ticket_open_owner ON ticket (owner, key) WHERE state = 'open';
CREATE INDEX failure_owner_group ON failure (owner, error_group, run);
