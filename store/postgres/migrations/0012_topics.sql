-- Topics are locked as rows, which only a role with rights on the tables can lock: see store.Need. Every role
-- that may connect can take an advisory lock. A topic has a row by its hash, so that locks insert no rows.
CREATE TABLE topic (
	slot bigint PRIMARY KEY
);
INSERT INTO topic SELECT generate_series(0, 1023);

-- Reports whether a role that may use the tables holds an advisory lock: a server of an older version, whose
-- mutual exclusion these locks were.
CREATE FUNCTION advisory_held(class bigint, object bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_stat_clear_snapshot(); -- of the sessions, which a transaction reads once
	RETURN EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.pid <> pg_backend_pid()
		AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
		AND l.classid::bigint = class & 4294967295 AND l.objid::bigint = object & 4294967295
		AND has_schema_privilege(a.usename, current_schema(), 'USAGE'));
END $$;

-- Locks topics until the end of the transaction. Returns false if that would mean to wait and may_wait is false.
-- Until no program that knows an older version may use the tables, it also takes the advisory locks of such
-- programs. It does not wait for one that another role holds: older programs wait for that role then.
CREATE FUNCTION lock_topics(schema_name text, topics text[], may_wait boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	slots bigint[];
	hashes int[];
	h int;
	locked bigint;
	most interval := current_setting('lock_timeout')::interval;
	begun timestamptz := clock_timestamp();
BEGIN
	SELECT array_agg(DISTINCT hashtext(u)::bigint & 1023), array_agg(DISTINCT hashtext(u)) INTO slots, hashes FROM unnest(topics) u;
	IF may_wait THEN
		SELECT count(*) INTO locked FROM (SELECT t.slot FROM topic t WHERE t.slot = ANY (slots) ORDER BY t.slot FOR UPDATE) l;
	ELSE
		SELECT count(*) INTO locked FROM (SELECT t.slot FROM topic t WHERE t.slot = ANY (slots) ORDER BY t.slot FOR UPDATE SKIP LOCKED) l;
	END IF;
	IF locked < cardinality(slots) THEN
		RETURN false;
	END IF;
	FOREACH h IN ARRAY hashes LOOP -- in their order, as older programs take them
		WHILE NOT pg_try_advisory_xact_lock(hashtext(schema_name), h) AND advisory_held(hashtext(schema_name), h) LOOP
			IF NOT may_wait THEN
				RETURN false;
			END IF;
			IF most > interval '0' AND clock_timestamp() > begun + most THEN
				RAISE lock_not_available USING MESSAGE = 'a server of an older version holds a topic';
			END IF;
			PERFORM pg_sleep(0.002);
		END LOOP;
	END LOOP;
	RETURN true;
END $$;
