-- The index of messages: see store.Indexing. words has the words of a message and those of its windows. A
-- row is dropped with its entry.
CREATE TABLE index_state (
	one        bigint PRIMARY KEY CHECK (one = 1),
	last_id    bigint NOT NULL,
	order_name text COLLATE "C" NOT NULL,
	position   bigint NOT NULL,
	thread     bigint NOT NULL,
	seq        bigint NOT NULL,
	until      bigint NOT NULL -- 0: no entry
);

CREATE TABLE indexed (
	thread  bigint NOT NULL,
	seq     bigint NOT NULL,
	content bigint NOT NULL,
	id      bigint NOT NULL,
	words   text[] COLLATE "C" NOT NULL,
	PRIMARY KEY (thread, seq)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.1);

-- Without a list of pending rows, which each search would read.
CREATE INDEX indexed_words ON indexed USING gin (words) WITH (fastupdate = off);

CREATE FUNCTION drop_indexed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' THEN
		DELETE FROM indexed WHERE thread = OLD.thread AND seq BETWEEN OLD.first_seq AND OLD.last_seq;
	ELSE
		DELETE FROM indexed WHERE thread = NEW.thread AND seq BETWEEN OLD.first_seq AND NEW.first_seq - 1;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER entry_dropped AFTER DELETE ON entry FOR EACH ROW EXECUTE FUNCTION drop_indexed();
CREATE TRIGGER entry_cut AFTER UPDATE OF first_seq ON entry FOR EACH ROW EXECUTE FUNCTION drop_indexed();
