package postgres

// Each statement writes all rows of a kind from arrays, one per column. A number of rows that must
// match is checked by the statement itself, so that an error keeps the pipeline from reaching
// COMMIT: it divides by zero.
const (
	checkRows = " SELECT 1 / (count(*) = $1)::int FROM w"
	checkKeys = " SELECT array_agg(key ORDER BY key), 1 / (count(*) = $1)::int FROM w"

	updateThreads = `WITH w AS (UPDATE thread t SET agent = u.agent, worker = nullif(u.worker, ''), due_at = nullif(u.due_at, 0),
		due_agent = CASE WHEN u.due_at <> 0 THEN u.due_agent END, due_priority = CASE WHEN u.due_at <> 0 THEN u.due_priority END,
		due_alone = CASE WHEN u.due_at <> 0 THEN u.due_alone END, current_run = nullif(u.current_run, ''),
		deliver_to = nullif(u.deliver_to, ''), deleted = nullif(u.deleted, false), revision = u.revision, body = u.body
		FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::boolean[], $9::text[], $10::text[],
			$11::boolean[], $12::bigint[], $13::bytea[])
			u (key, agent, worker, due_at, due_agent, due_priority, due_alone, current_run, deliver_to, deleted, revision, body)
		WHERE t.key = u.key RETURNING 1)` + checkRows

	// Keys grow in the order of the arrays. The rows are inserted by id, so that two transactions
	// that insert the same ids do not wait for each other in a cycle.
	insertThreads = `WITH new AS MATERIALIZED (SELECT nextval('thread_key') AS key, u.* FROM
		unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::bigint[], $9::boolean[], $10::text[], $11::text[],
			$12::boolean[], $13::bigint[], $14::bytea[])
			u (id, owner, agent, worker, due_at, due_agent, due_priority, due_alone, current_run, deliver_to, deleted, revision, body)),
		w AS (INSERT INTO thread (key, id, owner, agent, worker, due_at, due_agent, due_priority, due_alone, current_run, deliver_to, deleted, revision, body)
			SELECT key, id, owner, agent, nullif(worker, ''), nullif(due_at, 0), CASE WHEN due_at <> 0 THEN due_agent END,
			CASE WHEN due_at <> 0 THEN due_priority END, CASE WHEN due_at <> 0 THEN due_alone END, nullif(current_run, ''),
			nullif(deliver_to, ''), nullif(deleted, false), revision, body FROM new ORDER BY id RETURNING key)` + checkKeys

	// A row of a thread that the same Changes insert names it by id; its key is 0.
	threadOf = "CASE WHEN u.thread <> 0 THEN u.thread ELSE (SELECT t.key FROM thread t WHERE t.id = u.thread_id) END"

	insertRuns = `WITH w AS (INSERT INTO run (id, thread, agent, owner, parent, submit_key, status, pile, priority, place, not_before, first_seq, late_seq, body)
		SELECT u.id, ` + threadOf + `, u.agent, u.owner, nullif(u.parent, ''), nullif(u.submit_key, ''), u.status, nullif(u.pile, -1),
			CASE WHEN u.pile = 0 THEN u.priority END, CASE WHEN u.pile IN (0, 1) THEN u.place END, CASE WHEN u.pile = 1 THEN u.not_before END,
			u.first_seq, CASE WHEN u.late THEN u.first_seq END, u.body
		FROM unnest($2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[], $11::bigint[],
			$12::bigint[], $13::bigint[], $14::bigint[], $15::boolean[], $16::bytea[]) WITH ORDINALITY
			u (id, thread, thread_id, agent, owner, parent, submit_key, status, pile, priority, place, not_before, first_seq, late, body, n)
		ORDER BY u.n RETURNING key)` + checkKeys

	updateRuns = `WITH w AS (UPDATE run r SET parent = nullif(u.parent, ''), submit_key = nullif(u.submit_key, ''), status = u.status, pile = nullif(u.pile, -1),
			priority = CASE WHEN u.pile = 0 THEN u.priority END, place = CASE WHEN u.pile IN (0, 1) THEN u.place END,
			not_before = CASE WHEN u.pile = 1 THEN u.not_before END, body = u.body
		FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bytea[])
			u (key, parent, submit_key, status, pile, priority, place, not_before, body)
		WHERE r.key = u.key RETURNING 1)` + checkRows

	insertEntries = `INSERT INTO entry (thread, last_seq, first_seq, lines) SELECT ` + threadOf + `, u.last_seq, u.first_seq, u.lines
		FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[]) u (thread, thread_id, last_seq, first_seq, lines)`

	insertKeys = `INSERT INTO submit_key (thread, key, digest, run, result, joined_seq)
		SELECT ` + threadOf + `, u.key, u.digest, nullif(u.run, ''), u.result, nullif(u.joined_seq, -1)
		FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::bigint[])
			u (thread, thread_id, key, digest, run, result, joined_seq)`

	putPartials = `WITH w AS (INSERT INTO partial (run, start, attempt, message, content)
		SELECT r.key, u.start, u.attempt, u.message, u.content
		FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::bytea[]) u (run, start, attempt, message, content)
			JOIN run r ON r.id = u.run
		ON CONFLICT (run, start) DO UPDATE SET attempt = excluded.attempt, message = excluded.message, content = excluded.content RETURNING 1)` + checkRows

	putWorkers = `INSERT INTO worker (id, body) SELECT * FROM unnest($1::text[], $2::bytea[]) u (id, body) ORDER BY id
		ON CONFLICT (id) DO UPDATE SET body = excluded.body`

	insertTickets = `WITH w AS (INSERT INTO ticket (id, thread, run, owner, kind, state, body) SELECT u.id, t.key, r.key, t.owner, u.kind, u.state, u.body
		FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[]) WITH ORDINALITY u (id, thread, run, kind, state, body, n)
			JOIN run r ON r.id = u.run JOIN thread t ON t.key = r.thread AND t.id = u.thread
		ORDER BY u.n RETURNING key)` + checkKeys
	updateTickets = `WITH w AS (UPDATE ticket k SET kind = u.kind, state = u.state, body = u.body
		FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::bytea[]) u (key, id, kind, state, body)
		WHERE k.key = u.key AND k.id = u.id RETURNING 1)` + checkRows

	insertTokens = `WITH w AS (INSERT INTO token (name, body) SELECT u.name, u.body FROM unnest($2::text[], $3::bytea[]) WITH ORDINALITY u (name, body, n)
		ORDER BY u.n RETURNING key)` + checkKeys
	updateTokens = `WITH w AS (UPDATE token t SET body = u.body FROM unnest($2::bigint[], $3::text[], $4::bytea[]) u (key, name, body)
		WHERE t.key = u.key AND t.name = u.name RETURNING 1)` + checkRows
	addUse = `INSERT INTO token_use (token, node, threads, bytes, workers, notifications)
		SELECT u.token, $1::text, u.threads, u.bytes, u.workers, u.notifications
		FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) u (token, threads, bytes, workers, notifications)
			JOIN token t ON t.name = u.token ORDER BY u.token
		ON CONFLICT (token, node) DO UPDATE SET threads = token_use.threads + excluded.threads, bytes = token_use.bytes + excluded.bytes,
			workers = token_use.workers + excluded.workers, notifications = token_use.notifications + excluded.notifications`

	putDefinitions = `INSERT INTO definition (agent, version, body) SELECT agent, version, nullif(body, ''::bytea)
		FROM unnest($1::text[], $2::text[], $3::bytea[]) u (agent, version, body) ORDER BY agent, version ON CONFLICT (agent, version) DO NOTHING`
	putPauses = `INSERT INTO pause (agent, by, reason, at, probe) SELECT agent, by, reason, at, nullif(probe, 0)
		FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[]) u (agent, by, reason, at, probe) ORDER BY agent
		ON CONFLICT (agent) DO UPDATE SET by = excluded.by, reason = excluded.reason, at = excluded.at, probe = excluded.probe`
	dropPauses = "DELETE FROM pause WHERE agent = ANY ($1::text[])"
	putCursors = `INSERT INTO cursor (channel, identity, position, moved_at) SELECT channel, identity, nullif(position, ''::bytea), nullif(moved_at, 0)
		FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[]) u (channel, identity, position, moved_at) ORDER BY channel, identity
		ON CONFLICT (channel, identity) DO UPDATE SET position = excluded.position, moved_at = excluded.moved_at`
	putReservations = `WITH w AS (INSERT INTO reservation (id, thread, fence, body) SELECT u.id, t.key, u.fence, u.body
		FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bytea[]) u (id, thread, fence, body) JOIN thread t ON t.id = u.thread ORDER BY u.id
		ON CONFLICT (id) DO UPDATE SET thread = excluded.thread, fence = excluded.fence, body = excluded.body RETURNING 1)` + checkRows

	dropThreads      = "SELECT drop_threads($1, $2::text[])"
	dropWorkers      = "DELETE FROM worker WHERE id = ANY ($1::text[])"
	dropPartials     = "DELETE FROM partial p USING run r WHERE r.id = ANY ($1::text[]) AND p.run = r.key"
	dropPrefix       = "SELECT drop_prefix($1, $2, $3)"
	dropDefinitions  = "DELETE FROM definition d USING unnest($1::text[], $2::text[]) u (agent, version) WHERE d.agent = u.agent AND d.version = u.version"
	dropCursors      = "DELETE FROM cursor c USING unnest($1::text[], $2::text[]) u (channel, identity) WHERE c.channel = u.channel AND c.identity = u.identity"
	dropTokens       = "WITH u AS (DELETE FROM token_use WHERE token = ANY ($1::text[])) DELETE FROM token WHERE name = ANY ($1::text[])"
	dropReservations = "DELETE FROM reservation WHERE id = ANY ($1::text[])"

	// This is add_tally, whose plan PostgreSQL would make at each call.
	addTally = `INSERT INTO tally SELECT u.what, u.owner, u.agent, $1::text, sum(u.n)::bigint
		FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[]) u (what, owner, agent, n)
		GROUP BY u.what, u.owner, u.agent HAVING sum(u.n) <> 0 ORDER BY u.what, u.owner, u.agent
		ON CONFLICT (what, owner, agent, node) DO UPDATE SET n = tally.n + excluded.n`
	// The owners of runs whose threads are not in the Changes are read.
	addTallyOfRuns = `SELECT add_tally($1, array_agg(u.what), array_agg(t.owner), array_agg(r.agent), array_agg(u.n))
		FROM unnest($2::bigint[], $3::text[], $4::bigint[]) u (run, what, n) JOIN run r ON r.key = u.run JOIN thread t ON t.key = r.thread`
)
