-- Each row of entries gets the rowid of the thread's row before it, and each thread that of its last one. The index of
-- entries by thread has the rows that are older than the column, and of newer ones only those with an entry whose seq
-- is a multiple of 32 (store/sqlite/chain.go).

-- +goose Up
ALTER TABLE thread ADD COLUMN entry_row INTEGER NOT NULL DEFAULT 0; -- 0: no row
ALTER TABLE thread ADD COLUMN entry_seq INTEGER NOT NULL DEFAULT 0; -- its last one
UPDATE thread SET (entry_row, entry_seq) = (SELECT e.rowid, e.last_seq FROM entry e WHERE e.thread = thread.key
	ORDER BY e.last_seq DESC LIMIT 1) WHERE EXISTS (SELECT 1 FROM entry e WHERE e.thread = thread.key);
ALTER TABLE entry ADD COLUMN previous INTEGER; -- 0: no row; NULL: the next older one in the index
DROP INDEX entry_thread;
CREATE UNIQUE INDEX entry_thread ON entry (thread, last_seq)
	WHERE (previous IS NULL OR last_seq / 32 > (first_seq - 1) / 32);
