-- Numbers that transactions share under a key, such as the next start of a rate: see store.Meter.

-- +goose Up
CREATE TABLE meter (
    key           TEXT PRIMARY KEY,
    at            INTEGER,
    count         INTEGER NOT NULL,
    usd           INTEGER NOT NULL, -- micro-dollars, as raised_usd
    tokens        INTEGER NOT NULL,
    turns         INTEGER NOT NULL,
    raised_usd    INTEGER NOT NULL,
    raised_tokens INTEGER NOT NULL,
    raised_turns  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
