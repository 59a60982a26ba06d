-- The index of messages: see store.Indexing. A row of word has the words of a row of indexed, and is
-- dropped with it, and that with its entry.

-- +goose Up
CREATE TABLE index_state (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    last_id    INTEGER NOT NULL,
    order_name TEXT    NOT NULL,
    entry_row  INTEGER NOT NULL,
    thread     INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    until      INTEGER -- NULL: no entry
) STRICT;

CREATE TABLE indexed (
    id      INTEGER PRIMARY KEY,
    thread  INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    content INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX indexed_entry ON indexed (thread, seq);

-- The program splits texts; the tokenizer only splits at spaces.
CREATE VIRTUAL TABLE word USING fts5(words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');

-- +goose StatementBegin
CREATE TRIGGER indexed_dropped AFTER DELETE ON indexed BEGIN
    DELETE FROM word WHERE rowid = old.id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER entry_dropped AFTER DELETE ON entry BEGIN
    DELETE FROM indexed WHERE thread = old.thread AND seq BETWEEN old.first_seq AND old.last_seq;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER entry_cut AFTER UPDATE OF first_seq ON entry BEGIN
    DELETE FROM indexed WHERE thread = new.thread AND seq BETWEEN old.first_seq AND new.first_seq - 1;
END;
-- +goose StatementEnd
