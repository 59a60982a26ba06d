-- The deadlines of open runs that were not asked to stop, by their time. They are not columns of run, because the
-- runs without a deadline, nearly all of them, would then write them too.
CREATE TABLE deadline (
	run bigint PRIMARY KEY, -- key
	at  bigint NOT NULL
);
CREATE INDEX deadline_at ON deadline (at);
