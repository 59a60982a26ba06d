package sqlite

import (
	"bytes"

	"mailroom/store"
	"mailroom/store/internal/format"
)

const (
	threadKey = "SELECT key FROM thread WHERE id = ?"

	cutEntries = "UPDATE entry SET first_seq = ?, lines = ? WHERE rowid = ?"

	// Runs by key, which is the order of first_seq except for late runs: the reader stops at the
	// first run that stays.
	oldRuns  = "SELECT key, body, first_seq FROM run WHERE thread = ? ORDER BY key"
	lateRuns = `SELECT key, body, first_seq FROM run
		WHERE thread = ? AND late_seq IS NOT NULL AND late_seq < ?`

	dropPartialsOf = "DELETE FROM partial WHERE run " // … IN list
	dropTicketsOf  = "DELETE FROM ticket WHERE run "
	dropRuns       = "DELETE FROM run WHERE key "
	dropKeys       = "DELETE FROM submit_key WHERE thread = ? AND key "
	dropJoinedKeys = "DELETE FROM submit_key WHERE thread = ? AND joined_seq IS NOT NULL AND joined_seq < ?"
)

// dropPrefix removes the entries, runs and keys below p.Seq. Its cost depends on what it removes,
// not on the length of the log.
func (t *tx) dropPrefix(p store.Prefix) error {
	var thread int64
	err := t.session.query(t.ctx, threadKey, []any{p.Thread}, func(c *columns) (bool, error) {
		thread = c.Int64()
		return false, nil
	})
	if err != nil || thread == 0 {
		return err
	}
	if err := t.dropEntries(thread, p); err != nil {
		return err
	}
	if _, err := t.exec(dropJoinedKeys, thread, p.Seq); err != nil {
		return err
	}
	runs, keys, err := t.runsBelow(thread, p.Seq)
	if err != nil {
		return err
	}
	for args := range inLists(runs) {
		for _, text := range [...]string{dropPartialsOf, dropTicketsOf, dropRuns} { // referencing rows first
			if _, err := t.exec(text+in(args), args...); err != nil {
				return err
			}
		}
	}
	for args := range inLists(keys) {
		if _, err := t.exec(dropKeys+in(args), append([]any{thread}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// dropEntries deletes the rows that end below a seq and cuts the row that spans it.
func (t *tx) dropEntries(thread int64, p store.Prefix) error {
	seq := p.Seq
	if err := t.noteRemoved(thread, p); err != nil {
		return err
	}
	if err := t.run(dropEntriesBelow, p.Thread, seq, int64(0)); err != nil {
		return err
	}
	var row, from int64
	var lines []byte
	err := t.session.query(t.ctx, entriesForward, []any{p.Thread, seq, seq - 1}, func(c *columns) (bool, error) {
		row = c.Int64()
		c.skip()
		if from = c.Int64(); from < seq {
			lines = bytes.Clone(c.blob())
		}
		return false, nil
	})
	if err != nil || lines == nil {
		return err
	}
	if lines, err = format.CutEntries(lines, from, seq); err != nil {
		return err
	}
	_, err = t.exec(cutEntries, seq, lines, row)
	return err
}

// runsBelow returns the keys of the runs that begin below seq, and their submit keys.
func (t *tx) runsBelow(thread, seq int64) (runs []int64, keys []string, err error) {
	seen := make(map[int64]bool)
	note := func(c *columns) (bool, error) {
		if c.row.int64(2) >= seq {
			return false, nil
		}
		run, err := scanRun(c)
		if err == nil && !seen[run.Key] {
			seen[run.Key] = true
			runs = append(runs, run.Key)
			if run.SubmitKey != "" {
				keys = append(keys, run.SubmitKey)
			}
		}
		return true, err
	}
	if err := t.session.query(t.ctx, oldRuns, []any{thread}, note); err != nil {
		return nil, nil, err
	}
	err = t.session.query(t.ctx, lateRuns, []any{thread, seq}, note)
	return runs, keys, err
}
