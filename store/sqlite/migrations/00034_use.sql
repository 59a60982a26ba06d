-- The use of each token moves from its row to a row of tally, which has counts that change with it: a commit that
-- changes both writes a page less. These rows have no what, and 'use' as agent; n has the bytes.

-- +goose Up
ALTER TABLE tally ADD COLUMN threads INTEGER;
ALTER TABLE tally ADD COLUMN workers INTEGER;
ALTER TABLE tally ADD COLUMN notifications INTEGER;
INSERT INTO tally (what, owner, agent, threads, n, workers, notifications)
	SELECT '', name, 'use', threads, bytes, workers, notifications FROM token;
ALTER TABLE token DROP COLUMN threads;
ALTER TABLE token DROP COLUMN bytes;
ALTER TABLE token DROP COLUMN workers;
ALTER TABLE token DROP COLUMN notifications;
