-- Numbers that transactions share under a key, such as the next start of a rate: see store.Meter. A row is locked before
-- it is read and written, and written often: its pages have room for the next versions of the row.
CREATE TABLE meter (
	key           text COLLATE "C" PRIMARY KEY,
	at            bigint,
	count         bigint NOT NULL,
	usd           bigint NOT NULL, -- micro-dollars, as raised_usd
	tokens        bigint NOT NULL,
	turns         bigint NOT NULL,
	raised_usd    bigint NOT NULL,
	raised_tokens bigint NOT NULL,
	raised_turns  bigint NOT NULL
) WITH (fillfactor = 50);
