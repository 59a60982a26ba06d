-- The deadlines of open runs that were not asked to stop, by their time. They are not columns of run, because the
-- runs without a deadline, nearly all of them, would then write them too.

-- +goose Up
CREATE TABLE deadline (
    run INTEGER PRIMARY KEY, -- key
    at  INTEGER NOT NULL
) STRICT;
CREATE INDEX deadline_at ON deadline (at);
