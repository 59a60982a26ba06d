-- The order of the entries of all threads. The position of a row is its rowid, which grows in commit
-- order and is never given twice: entry_row is the last one. order_name changes when rowids may be
-- given again, as in a copy that starts at an earlier commit. The removed ones are the greatest
-- position that retention has removed.

-- +goose Up
ALTER TABLE given ADD COLUMN entry_row INTEGER NOT NULL DEFAULT 0;
ALTER TABLE given ADD COLUMN order_name TEXT NOT NULL DEFAULT '';
ALTER TABLE given ADD COLUMN removed_row INTEGER NOT NULL DEFAULT 0;
ALTER TABLE given ADD COLUMN removed_thread INTEGER NOT NULL DEFAULT 0;
ALTER TABLE given ADD COLUMN removed_seq INTEGER NOT NULL DEFAULT 0;
UPDATE given SET entry_row = (SELECT coalesce(max(rowid), 0) FROM entry), order_name = lower(hex(randomblob(6)));
