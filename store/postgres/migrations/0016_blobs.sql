-- Blobs of agents. Their content is in pieces, one transaction each, so that no commit is as long as a blob is large.
-- The pieces of an upload that no row of blob names are named by the row of their thread.
CREATE TABLE blob (
	thread     bigint NOT NULL,
	agent      text COLLATE "C" NOT NULL,
	name       text COLLATE "C" NOT NULL,
	upload     text COLLATE "C" NOT NULL,
	size       bigint NOT NULL,
	digest     text NOT NULL,
	written_at bigint NOT NULL,
	PRIMARY KEY (thread, agent, name)
);

CREATE TABLE blob_piece (
	thread bigint NOT NULL,
	upload text COLLATE "C" NOT NULL,
	number bigint NOT NULL, -- from 0
	body   bytea NOT NULL,
	PRIMARY KEY (thread, upload, number)
);

-- A piece is read and deleted as a whole, and its size is asked without reading it.
ALTER TABLE blob_piece ALTER COLUMN body SET STORAGE EXTERNAL;

-- As before, and with the blobs: servers of the version before, which know none, delete threads that have some.
CREATE OR REPLACE FUNCTION drop_threads(by_node text, ids text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	keys bigint[];
	owners text[];
BEGIN
	SELECT array_agg(key), array_agg(owner) INTO keys, owners FROM thread WHERE id = ANY (ids);
	IF keys IS NULL THEN
		RETURN;
	END IF;
	PERFORM drop_runs(by_node, coalesce((SELECT array_agg(key) FROM run WHERE thread = ANY (keys)), '{}'));
	DELETE FROM submit_key WHERE thread = ANY (keys);
	DELETE FROM entry WHERE thread = ANY (keys);
	DELETE FROM reservation WHERE thread = ANY (keys);
	DELETE FROM blob WHERE thread = ANY (keys);
	DELETE FROM blob_piece WHERE thread = ANY (keys);
	DELETE FROM thread WHERE key = ANY (keys);
	PERFORM add_tally(by_node, array_fill('thread'::text, ARRAY[cardinality(keys)]), owners,
		array_fill(''::text, ARRAY[cardinality(keys)]), array_fill(-1::bigint, ARRAY[cardinality(keys)]));
END $$;
