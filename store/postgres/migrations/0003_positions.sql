-- The order of the entries of all threads, for a reader that reads them in parts: (position, thread,
-- last_seq). A position is a transaction id, at least that of the transaction that wrote the row. A
-- reader reads only below the oldest transaction that still runs, so no row that commits later has a
-- lower position than one that was read.
--
-- The id of the transaction alone would not order the rows of a thread: a transaction gets its id with
-- its first lock, and may then wait for another one with a greater id. So a position is also at least
-- the greatest id that had ended when the row was written: that of the transaction which held the
-- thread before.

CREATE TABLE entry_order (
	one    bigint PRIMARY KEY CHECK (one = 1),
	name   text COLLATE "C" NOT NULL, -- changes when positions of before mean nothing any more
	system bigint NOT NULL            -- the database cluster whose transaction ids the positions are
);

-- The greatest position of an entry that retention removed, per node: see tally.
CREATE TABLE removed (
	node     text COLLATE "C" PRIMARY KEY,
	position bigint NOT NULL,
	thread   bigint NOT NULL,
	seq      bigint NOT NULL
) WITH (fillfactor = 50);

-- Rows that exist before this get no position: they are before all others, and no reader asks for them.
-- Programs that do not know the column write it by its default. The column is added without one, which
-- changes no row.
CREATE FUNCTION begin_order() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	ALTER TABLE entry DROP COLUMN IF EXISTS position;
	ALTER TABLE entry ADD COLUMN position bigint;
	ALTER TABLE entry ALTER COLUMN position
		SET DEFAULT greatest(pg_current_xact_id()::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1);
	CREATE INDEX entry_position ON entry (position) WHERE position IS NOT NULL;
	DELETE FROM removed;
	INSERT INTO entry_order SELECT 1, substr(replace(gen_random_uuid()::text, '-', ''), 1, 12), system_identifier FROM pg_control_system()
		ON CONFLICT (one) DO UPDATE SET name = excluded.name, system = excluded.system;
END $$;

SELECT begin_order();

-- Also remembers what it removed. Deletes the entries of a thread below seq, the runs that begin there, and the keys that were joined
-- there. Runs of a thread have growing keys and, but for late ones, growing first_seqs, so the cost
-- does not depend on the runs that stay.
CREATE OR REPLACE FUNCTION drop_prefix(by_node text, of_thread text, below bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	k bigint;
	f bigint;
	l bigint;
	rest bytea;
	doomed bigint[];
	stays bigint;
	is_deleted boolean;
	last_position bigint;
BEGIN
	SELECT key, deleted INTO k, is_deleted FROM thread WHERE id = of_thread;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	IF is_deleted IS NOT TRUE THEN -- the greatest position of an entry that this removes
		SELECT e.position INTO last_position FROM (
			(SELECT position, first_seq, last_seq FROM entry WHERE thread = k AND last_seq >= below ORDER BY last_seq LIMIT 1)
			UNION ALL
			(SELECT position, first_seq, last_seq FROM entry WHERE thread = k AND last_seq < below ORDER BY last_seq DESC LIMIT 1)
		) e WHERE e.first_seq < below ORDER BY e.last_seq DESC LIMIT 1;
	END IF;
	IF last_position IS NOT NULL THEN
		INSERT INTO removed VALUES (by_node, last_position, k, below - 1)
			ON CONFLICT (node) DO UPDATE SET position = excluded.position, thread = excluded.thread, seq = excluded.seq
			WHERE (removed.position, removed.thread, removed.seq) < (excluded.position, excluded.thread, excluded.seq);
	END IF;
	DELETE FROM entry WHERE thread = k AND last_seq < below;
	SELECT first_seq, last_seq INTO f, l FROM entry WHERE thread = k AND last_seq >= below ORDER BY last_seq LIMIT 1;
	IF f < below THEN -- the row spans the border
		SELECT lines INTO rest FROM entry WHERE thread = k AND last_seq = l;
		FOR i IN f .. below - 1 LOOP
			rest := substring(rest FROM position('\x0a'::bytea IN rest) + 1);
		END LOOP;
		UPDATE entry SET first_seq = below, lines = rest WHERE thread = k AND last_seq = l;
	END IF;
	DELETE FROM submit_key WHERE thread = k AND joined_seq < below;
	SELECT key INTO stays FROM run WHERE thread = k AND first_seq >= below ORDER BY key LIMIT 1;
	SELECT array_agg(key) INTO doomed FROM run WHERE thread = k AND (stays IS NULL OR key < stays);
	doomed := coalesce(doomed, '{}') || coalesce((SELECT array_agg(key) FROM run
		WHERE thread = k AND late_seq < below AND key > stays), '{}');
	IF cardinality(doomed) > 0 THEN
		PERFORM drop_runs(by_node, doomed);
	END IF;
END $$;
