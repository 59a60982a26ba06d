-- Times are microseconds since 1970, UTC; NULL is the zero time. Columns exist for conditions; a body
-- has all fields of its row but the key (package format). What people wrote is in bytea, because text
-- cannot contain NUL. There are no foreign keys: the ledger locks a thread before it writes what
-- belongs to it, and each key would cost a lock per insert.
--
-- The fill factors leave room for updates that touch no index (HOT).

CREATE SEQUENCE thread_key;
CREATE SEQUENCE run_key;
CREATE SEQUENCE ticket_key;
CREATE SEQUENCE token_key;

CREATE TABLE thread (
	key          bigint PRIMARY KEY DEFAULT nextval('thread_key'),
	id           text COLLATE "C" NOT NULL UNIQUE,
	owner        text COLLATE "C" NOT NULL,
	agent        text COLLATE "C" NOT NULL,
	worker       text COLLATE "C",          -- NULL: not claimed
	due_at       bigint,                    -- NULL: nothing is due, and the next three are NULL too
	due_agent    text COLLATE "C",
	due_priority bigint,
	due_alone    boolean,
	current_run  text COLLATE "C",
	deliver_to   text COLLATE "C",
	deleted      boolean,                   -- true or NULL
	revision     bigint NOT NULL,
	body         bytea NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX thread_due ON thread (due_agent, due_alone, due_priority, due_at, key) WHERE due_at IS NOT NULL;
-- Without running threads, whose due_agent is '': most updates of a thread start or end a run.
CREATE INDEX thread_due_owner ON thread (due_agent, due_alone, owner, due_priority, due_at, key)
	WHERE due_at IS NOT NULL AND due_agent <> '';
CREATE INDEX thread_worker ON thread (worker) WHERE worker IS NOT NULL;
CREATE INDEX thread_deliver ON thread (deliver_to) WHERE deliver_to IS NOT NULL;
CREATE INDEX thread_deleted ON thread (key) WHERE deleted;

CREATE TABLE run (
	key        bigint PRIMARY KEY DEFAULT nextval('run_key'),
	id         text COLLATE "C" NOT NULL UNIQUE,
	thread     bigint NOT NULL,
	agent      text COLLATE "C" NOT NULL,
	parent     text COLLATE "C",
	submit_key text COLLATE "C",
	status     text COLLATE "C" NOT NULL,
	pile       bigint,                      -- 0: in the queue, 1: scheduled, 2: failed, 3: waiting, 5: cancelled,
	                                        -- 6: queued between two attempts, NULL: running or completed
	priority   bigint,                      -- of a run in the queue
	place      bigint,                      -- of a run in the queue or scheduled
	not_before bigint,                      -- of a scheduled run
	first_seq  bigint NOT NULL,
	late_seq   bigint,                      -- first_seq, if an earlier run of the thread may have a greater one
	body       bytea NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

-- Completed runs are most of all and lie among the newest: a list finds them without an index. Running
-- ones are found by the workers of their threads, so that the end of a run touches no index.
CREATE INDEX run_thread ON run (thread, key);
CREATE INDEX run_agent ON run (agent, key);
CREATE INDEX run_queue ON run (thread, priority, place, key) WHERE pile = 0;
CREATE INDEX run_scheduled ON run (thread, not_before, place, key) WHERE pile = 1;
CREATE INDEX run_pile ON run (pile, key) WHERE pile IS NOT NULL;
CREATE INDEX run_parent ON run (parent, key) WHERE parent IS NOT NULL;
CREATE INDEX run_late ON run (thread, late_seq) WHERE late_seq IS NOT NULL;

-- The entries that one commit appended to one thread, as JSON lines.
CREATE TABLE entry (
	thread    bigint NOT NULL,
	last_seq  bigint NOT NULL,
	first_seq bigint NOT NULL,
	lines     bytea NOT NULL,
	PRIMARY KEY (thread, last_seq)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.1);

CREATE TABLE submit_key (
	thread     bigint NOT NULL,
	key        text COLLATE "C" NOT NULL,
	digest     text COLLATE "C" NOT NULL,
	run        text COLLATE "C",            -- of the result
	result     bytea NOT NULL,              -- JSON
	joined_seq bigint,                      -- last entry of the thread, of a key that made no run
	PRIMARY KEY (thread, key)
);

CREATE INDEX submit_key_joined ON submit_key (thread, joined_seq) WHERE joined_seq IS NOT NULL;

CREATE TABLE partial (
	run     bigint NOT NULL,
	start   bigint NOT NULL,
	attempt bigint NOT NULL,
	message text COLLATE "C" NOT NULL,
	content bytea NOT NULL,
	PRIMARY KEY (run, start)
);

CREATE TABLE ticket (
	key    bigint PRIMARY KEY DEFAULT nextval('ticket_key'),
	id     text COLLATE "C" NOT NULL UNIQUE,
	thread bigint NOT NULL,
	run    bigint NOT NULL,
	kind   text COLLATE "C" NOT NULL,
	state  text COLLATE "C" NOT NULL,
	body   bytea NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX ticket_run ON ticket (run);
CREATE INDEX ticket_thread ON ticket (thread, key);
CREATE INDEX ticket_open ON ticket (key) WHERE state = 'open';
CREATE INDEX ticket_open_thread ON ticket (thread, key) WHERE state = 'open';

CREATE TABLE worker (
	id   text COLLATE "C" PRIMARY KEY,
	body bytea NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE definition (
	agent   text COLLATE "C" NOT NULL,
	version text COLLATE "C" NOT NULL,
	body    bytea,                          -- JSON
	PRIMARY KEY (agent, version)
);

CREATE TABLE token (
	key  bigint PRIMARY KEY DEFAULT nextval('token_key'),
	name text COLLATE "C" NOT NULL UNIQUE,
	body bytea NOT NULL                     -- without the use
);

-- Rows that sum up others have the node that wrote them in their key, and a reader adds them up. With
-- one row for all nodes, every commit of a node would hold the row's lock until its sync, and the
-- commits of all nodes would queue there. The row of one node may be negative.
CREATE TABLE token_use (
	token         text COLLATE "C" NOT NULL, -- name
	node          text COLLATE "C" NOT NULL,
	threads       bigint NOT NULL,
	bytes         bigint NOT NULL,
	workers       bigint NOT NULL,
	notifications bigint NOT NULL,
	PRIMARY KEY (token, node)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

-- Numbers of runs by status, of threads with what = 'thread' and no agent.
CREATE TABLE tally (
	what  text COLLATE "C" NOT NULL,
	owner text COLLATE "C" NOT NULL,
	agent text COLLATE "C" NOT NULL,
	node  text COLLATE "C" NOT NULL,
	n     bigint NOT NULL,
	PRIMARY KEY (what, owner, agent, node)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE cursor (
	channel  text COLLATE "C" NOT NULL,
	identity text COLLATE "C" NOT NULL,
	position bytea,                         -- JSON
	moved_at bigint,
	PRIMARY KEY (channel, identity)
) WITH (fillfactor = 50);

CREATE TABLE reservation (
	id     text COLLATE "C" PRIMARY KEY,
	thread bigint NOT NULL,
	fence  bigint NOT NULL,
	body   bytea NOT NULL
);

CREATE INDEX reservation_thread ON reservation (thread, fence, id);

-- Bodies stay in their rows, compressed if they are long, as far as a page has room.
ALTER TABLE thread ALTER COLUMN body SET STORAGE MAIN;
ALTER TABLE run ALTER COLUMN body SET STORAGE MAIN;
ALTER TABLE ticket ALTER COLUMN body SET STORAGE MAIN;
