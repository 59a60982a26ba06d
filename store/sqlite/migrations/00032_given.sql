-- Each commit changes the last keys, the last rowid of an entry and the revision. They move from the table given to a row
-- of tally, whose other rows most commits change too: a commit writes one page less. This row has no what, owner and agent,
-- and it alone has the new columns.

-- +goose Up
ALTER TABLE tally ADD COLUMN thread INTEGER;
ALTER TABLE tally ADD COLUMN run INTEGER;
ALTER TABLE tally ADD COLUMN revision INTEGER;
ALTER TABLE tally ADD COLUMN entry_row INTEGER;
INSERT INTO tally (what, owner, agent, n, thread, run, revision, entry_row)
	SELECT '', '', '', 0, thread, run, revision, entry_row FROM given;
ALTER TABLE given DROP COLUMN thread;
ALTER TABLE given DROP COLUMN run;
ALTER TABLE given DROP COLUMN revision;
ALTER TABLE given DROP COLUMN entry_row;
