-- The paused agents.
CREATE TABLE pause (
	agent  text COLLATE "C" PRIMARY KEY,
	by     text COLLATE "C" NOT NULL, -- name of a token
	reason text COLLATE "C" NOT NULL,
	at     bigint NOT NULL
);
