-- Locks up to slots due threads of one agent, but those in skip, and adds their keys to the transaction's setting
-- mailroom.due, where later statements of the same pipeline read them. Returns the number of threads,
-- and the earliest later due time, NULL if there is none. Each step is a seek in thread_due: behind
-- the first thread of a priority that is due later, the others of the priority are due later too.
--
-- Threads leave the queue at its begin, where an index keeps their entries until a vacuum. So only one
-- seek per priority begins there, and the others begin at the due time that it found.
CREATE FUNCTION lock_due(now bigint, want text, alone boolean, slots bigint, skip text[], OUT n bigint, OUT later bigint)
LANGUAGE plpgsql AS $$
DECLARE
	keys bigint[] := '{}';
	part bigint[];
	behind bigint := -9223372036854775808;
	begin_at bigint;
	at bigint;
BEGIN
	LOOP
		SELECT t.due_priority, t.due_at INTO behind, begin_at FROM thread t
			WHERE t.due_at IS NOT NULL AND t.due_agent = want AND t.due_alone = alone AND t.due_priority > behind
			ORDER BY t.due_priority, t.due_at LIMIT 1;
		EXIT WHEN NOT FOUND;
		IF begin_at <= now THEN
			SELECT coalesce(array_agg(d.key), '{}') INTO part FROM (
				SELECT t.key FROM thread t
					WHERE t.due_agent = want AND t.due_alone = alone AND t.due_priority = behind AND t.due_at >= begin_at AND t.due_at <= now
					AND t.id <> ALL (skip) ORDER BY t.due_at, t.key LIMIT slots - cardinality(keys) FOR NO KEY UPDATE SKIP LOCKED) d;
			keys := keys || part;
			EXIT WHEN cardinality(keys) >= slots;
		END IF;
		SELECT t.due_at INTO at FROM thread t
			WHERE t.due_agent = want AND t.due_alone = alone AND t.due_priority = behind AND t.due_at > now
			ORDER BY t.due_at LIMIT 1;
		later := least(later, at);
	END LOOP;
	n := cardinality(keys);
	IF n > 0 THEN
		PERFORM add_due(keys);
	END IF;
END $$;

-- The same with at most `most` threads per owner, less the owner's number in held. Later due times
-- are not searched.
CREATE FUNCTION lock_due_shared(now bigint, want text, alone boolean, slots bigint, skip text[], most bigint,
	owners text[], held bigint[], OUT n bigint, OUT later bigint)
LANGUAGE plpgsql AS $$
DECLARE
	candidates bigint[] := '{}';
	keys bigint[];
	part bigint[];
	whose text;
	share bigint;
	behind bigint;
	begin_at bigint;
	own bigint;
BEGIN
	-- A condition with OR would scan the threads of an owner to find the next one.
	SELECT t.owner, t.due_priority, t.due_at INTO whose, behind, begin_at FROM thread t
		WHERE t.due_at IS NOT NULL AND t.due_agent <> '' AND t.due_agent = want AND t.due_alone = alone
		ORDER BY t.owner, t.due_priority, t.due_at LIMIT 1;
	WHILE whose IS NOT NULL LOOP
		share := least(slots, most - coalesce(held[array_position(owners, whose)], 0));
		own := 0;
		WHILE own < share AND behind IS NOT NULL LOOP
			IF begin_at <= now THEN
				SELECT coalesce(array_agg(d.key), '{}') INTO part FROM (
					SELECT t.key FROM thread t
						WHERE t.due_agent <> '' AND t.due_agent = want AND t.due_alone = alone AND t.owner = whose AND t.due_priority = behind
						AND t.due_at >= begin_at AND t.due_at <= now AND t.id <> ALL (skip) ORDER BY t.due_at, t.key LIMIT share - own) d;
				candidates := candidates || part;
				own := own + cardinality(part);
				EXIT WHEN own >= share;
			END IF;
			SELECT t.due_priority, t.due_at INTO behind, begin_at FROM thread t
				WHERE t.due_at IS NOT NULL AND t.due_agent <> '' AND t.due_agent = want AND t.due_alone = alone AND t.owner = whose
				AND t.due_priority > behind ORDER BY t.due_priority, t.due_at LIMIT 1;
		END LOOP;
		SELECT t.owner, t.due_priority, t.due_at INTO whose, behind, begin_at FROM thread t
			WHERE t.due_at IS NOT NULL AND t.due_agent <> '' AND t.due_agent = want AND t.due_alone = alone AND t.owner > whose
			ORDER BY t.owner, t.due_priority, t.due_at LIMIT 1;
	END LOOP;
	n := 0;
	IF cardinality(candidates) > 0 THEN
		SELECT coalesce(array_agg(d.key), '{}') INTO keys FROM (
			SELECT t.key FROM unnest(candidates) c (key) JOIN thread t ON t.key = c.key
				WHERE (t.due_agent = want AND t.due_alone = alone AND t.due_at <= now) IS TRUE -- by key, not by another index
				ORDER BY t.due_priority, t.due_at, t.key LIMIT slots FOR NO KEY UPDATE OF t SKIP LOCKED) d;
		n := cardinality(keys);
		PERFORM add_due(keys);
	END IF;
END $$;

CREATE FUNCTION due_keys() RETURNS bigint[] LANGUAGE sql STABLE AS $$
	SELECT coalesce(nullif(current_setting('mailroom.due', true), ''), '{}')::bigint[]
$$;

-- In PL/pgSQL, because PostgreSQL plans a function in SQL at each call.
CREATE FUNCTION add_due(keys bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('mailroom.due', (due_keys() || keys)::text, true);
END $$;

-- One key of a due thread per agent, in the order of agents, in one seek each.
CREATE FUNCTION due_each() RETURNS SETOF bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
	last text;
	found_key bigint;
BEGIN
	LOOP
		IF last IS NULL THEN
			SELECT t.key, t.due_agent INTO found_key, last FROM thread t WHERE t.due_at IS NOT NULL ORDER BY t.due_agent LIMIT 1;
		ELSE
			SELECT t.key, t.due_agent INTO found_key, last FROM thread t
				WHERE t.due_at IS NOT NULL AND t.due_agent > last ORDER BY t.due_agent LIMIT 1;
		END IF;
		EXIT WHEN last IS NULL;
		RETURN NEXT found_key;
	END LOOP;
END $$;

-- The earliest due time of a thread with an agent, of one owner or, with NULL, of all.
CREATE FUNCTION earliest_due(whose text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
	of_agent text := '';
	is_alone boolean := true;
	behind bigint;
	at bigint;
	earliest bigint;
BEGIN
	LOOP
		SELECT t.due_agent, t.due_alone INTO of_agent, is_alone FROM thread t
			WHERE t.due_at IS NOT NULL AND (t.due_agent, t.due_alone) > (of_agent, is_alone)
			ORDER BY t.due_agent, t.due_alone LIMIT 1;
		EXIT WHEN NOT FOUND;
		behind := -9223372036854775808;
		LOOP
			IF whose IS NULL THEN
				SELECT t.due_priority, t.due_at INTO behind, at FROM thread t
					WHERE t.due_at IS NOT NULL AND t.due_agent = of_agent AND t.due_alone = is_alone AND t.due_priority > behind
					ORDER BY t.due_priority, t.due_at LIMIT 1;
			ELSE
				SELECT t.due_priority, t.due_at INTO behind, at FROM thread t
					WHERE t.due_at IS NOT NULL AND t.due_agent <> '' AND t.due_agent = of_agent AND t.due_alone = is_alone AND t.owner = whose
					AND t.due_priority > behind ORDER BY t.due_priority, t.due_at LIMIT 1;
			END IF;
			EXIT WHEN NOT FOUND;
			earliest := least(earliest, at);
		END LOOP;
	END LOOP;
	RETURN earliest;
END $$;

-- Adds to the counts of a node. The rows are locked in one order.
CREATE FUNCTION add_tally(by_node text, whats text[], owners text[], agents text[], ns bigint[]) RETURNS void
LANGUAGE sql AS $$
	INSERT INTO tally SELECT u.what, u.owner, u.agent, by_node, sum(u.n)::bigint
		FROM unnest(whats, owners, agents, ns) u (what, owner, agent, n)
		GROUP BY u.what, u.owner, u.agent HAVING sum(u.n) <> 0 ORDER BY u.what, u.owner, u.agent
		ON CONFLICT (what, owner, agent, node) DO UPDATE SET n = tally.n + excluded.n
$$;

-- Deletes runs with what belongs to them.
CREATE FUNCTION drop_runs(by_node text, keys bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	whats text[];
	owners text[];
	agents text[];
BEGIN
	DELETE FROM partial WHERE run = ANY (keys);
	DELETE FROM ticket WHERE run = ANY (keys);
	DELETE FROM submit_key k USING run r WHERE r.key = ANY (keys) AND k.thread = r.thread AND k.key = r.submit_key;
	WITH d AS (DELETE FROM run WHERE key = ANY (keys) RETURNING thread, status, agent)
		SELECT array_agg(d.status), array_agg(t.owner), array_agg(d.agent) INTO whats, owners, agents
		FROM d JOIN thread t ON t.key = d.thread;
	IF whats IS NOT NULL THEN
		PERFORM add_tally(by_node, whats, owners, agents, array_fill(-1::bigint, ARRAY[cardinality(whats)]));
	END IF;
END $$;

-- Deletes threads with all that belongs to them.
CREATE FUNCTION drop_threads(by_node text, ids text[]) RETURNS void LANGUAGE plpgsql AS $$
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
	DELETE FROM thread WHERE key = ANY (keys);
	PERFORM add_tally(by_node, array_fill('thread'::text, ARRAY[cardinality(keys)]), owners,
		array_fill(''::text, ARRAY[cardinality(keys)]), array_fill(-1::bigint, ARRAY[cardinality(keys)]));
END $$;

-- Deletes the entries of a thread below seq, the runs that begin there, and the keys that were joined
-- there. Runs of a thread have growing keys and, but for late ones, growing first_seqs, so the cost
-- does not depend on the runs that stay.
CREATE FUNCTION drop_prefix(by_node text, of_thread text, below bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	k bigint;
	f bigint;
	l bigint;
	rest bytea;
	doomed bigint[];
	stays bigint;
BEGIN
	SELECT key INTO k FROM thread WHERE id = of_thread;
	IF NOT FOUND THEN
		RETURN;
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
