-- The owner of a run's thread, so that the runs of an owner are found without those of others. NULL: the
-- run is older than the column.
ALTER TABLE run ADD COLUMN owner text COLLATE "C";

-- Programs that do not know the column write none.
CREATE FUNCTION set_run_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	SELECT t.owner INTO NEW.owner FROM thread t WHERE t.key = NEW.thread;
	RETURN NEW;
END $$;
CREATE TRIGGER run_without_owner BEFORE INSERT ON run FOR EACH ROW WHEN (NEW.owner IS NULL) EXECUTE FUNCTION set_run_owner();

-- The failed runs with an error group. The columns are not columns of run, so that the end of a completed
-- run touches no index.
CREATE TABLE failure (
	run         bigint PRIMARY KEY,
	at          bigint NOT NULL,              -- end of the run
	error_group text COLLATE "C" NOT NULL,
	agent       text COLLATE "C" NOT NULL,
	owner       text COLLATE "C" NOT NULL
);
CREATE INDEX failure_group ON failure (error_group, run);

-- A run that is retried has not failed any more, whatever program retries it.
CREATE FUNCTION drop_failure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM failure WHERE run = NEW.key;
	RETURN NULL;
END $$;
CREATE TRIGGER run_retried AFTER UPDATE ON run FOR EACH ROW
	WHEN (OLD.pile = 2 AND NEW.pile IS DISTINCT FROM 2) EXECUTE FUNCTION drop_failure();

-- The next migration builds these indexes beside running servers, which waits for other transactions of
-- the database. A new store need not wait.
DO $$
BEGIN
	IF NOT EXISTS (SELECT FROM thread) THEN
		CREATE INDEX run_owner ON run (owner, key);
		CREATE INDEX run_unowned ON run (key) WHERE owner IS NULL;
		CREATE INDEX thread_owner ON thread (owner, key);
		CREATE INDEX thread_agent ON thread (agent, key);
	END IF;
END $$;

-- Deletes runs with what belongs to them.
CREATE OR REPLACE FUNCTION drop_runs(by_node text, keys bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	whats text[];
	owners text[];
	agents text[];
BEGIN
	DELETE FROM partial WHERE run = ANY (keys);
	DELETE FROM ticket WHERE run = ANY (keys);
	DELETE FROM failure WHERE run = ANY (keys);
	DELETE FROM submit_key k USING run r WHERE r.key = ANY (keys) AND k.thread = r.thread AND k.key = r.submit_key;
	WITH d AS (DELETE FROM run WHERE key = ANY (keys) RETURNING thread, status, agent)
		SELECT array_agg(d.status), array_agg(t.owner), array_agg(d.agent) INTO whats, owners, agents
		FROM d JOIN thread t ON t.key = d.thread;
	IF whats IS NOT NULL THEN
		PERFORM add_tally(by_node, whats, owners, agents, array_fill(-1::bigint, ARRAY[cardinality(whats)]));
	END IF;
END $$;
