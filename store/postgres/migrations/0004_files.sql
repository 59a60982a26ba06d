-- Files of messages, in pieces of equal size but the last. They are beside the rows of the store: a
-- transaction of the store never reads or writes them.
CREATE SEQUENCE file_key;

CREATE TABLE file (
	key      bigint PRIMARY KEY DEFAULT nextval('file_key'),
	name     text COLLATE "C" NOT NULL UNIQUE, -- the hash of the content and an extension
	size     bigint,                           -- NULL: not all pieces are stored yet
	saved_at bigint NOT NULL                   -- of the last time
);

CREATE INDEX file_saved ON file (saved_at, key);

-- The foreign key removes the pieces with their file, and refuses pieces of one that was removed.
CREATE TABLE file_piece (
	file   bigint NOT NULL REFERENCES file ON DELETE CASCADE,
	number bigint NOT NULL, -- from 0
	body   bytea NOT NULL,
	PRIMARY KEY (file, number)
);

-- Most files are compressed already.
ALTER TABLE file_piece ALTER COLUMN body SET STORAGE EXTERNAL;
