-- The summary of ended runs: see store.Summary. Steps and times are in microseconds, the sums in the
-- units of store.Sums. A row per node: see tally.
CREATE TABLE summary (
	step          bigint NOT NULL,
	agent         text COLLATE "C" NOT NULL, -- '' sums up all agents
	at            bigint NOT NULL,
	status        text COLLATE "C" NOT NULL,
	node          text COLLATE "C" NOT NULL,
	runs          bigint NOT NULL,
	delay         bigint NOT NULL,
	ran           bigint NOT NULL,
	input_tokens  bigint NOT NULL,
	output_tokens bigint NOT NULL,
	cost          bigint NOT NULL,
	delays0       bigint NOT NULL,
	delays1       bigint NOT NULL,
	delays2       bigint NOT NULL,
	delays3       bigint NOT NULL,
	delays4       bigint NOT NULL,
	delays5       bigint NOT NULL,
	delays6       bigint NOT NULL,
	delays7       bigint NOT NULL,
	PRIMARY KEY (step, agent, at, status, node)
) WITH (fillfactor = 50); -- rows of the present change often, in place

-- Old rows are dropped by it.
CREATE INDEX summary_at ON summary (step, at);
