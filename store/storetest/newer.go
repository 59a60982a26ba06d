package storetest

import (
	"testing"

	"mailroom/store"
)

// NewerField stands for the fields that a newer version adds to a row. Rewrite sets it.
const NewerField = "\x00\x05newer"

// Rewrite writes one row of each kind with fields of a newer version, calls between, and has an
// older version read and change every row that a program changes. It returns the fields of a newer
// version that each row has then, by kind. A store that has a column for each field does not return
// those of some kinds: they are columns that it does not name.
func Rewrite(t *testing.T, s store.Store, between func()) map[string]string {
	h := opened(t, s)
	c := fullChanges()
	for _, row := range c.Threads {
		row.Newer = NewerField
	}
	c.Runs[0].Newer, c.Tickets[0].Newer, c.Workers[0].Newer = NewerField, NewerField, NewerField
	c.Tokens[0].Newer, c.Reservations[0].Newer = NewerField, NewerField
	h.write(c)
	message := []store.IndexRow{{Thread: c.Threads[0].Key, Seq: 1, Words: []string{"hello"}}}
	h.indexed(message)
	between()
	h.indexed(message)
	h.update(func(tx store.Tx) {
		l, err := tx.Load(store.Need{Workers: []string{"w"}, Threads: []string{"t", "bare"}, Runs: []string{"r"}})
		must(t, err)
		old := read(t, tx)
		changed := &store.Changes{
			Threads: l.Threads, Runs: l.Runs, Workers: l.Workers, Tickets: old.Tickets, Tokens: old.Tokens,
			Cursors: old.Cursors, Reservations: old.Reserved, Partials: old.Partials["r"], Definitions: old.Kept,
			Pauses: old.Pauses,
		}
		for _, row := range changed.Threads {
			row.Agent, row.Worker, row.DeliverTo = "changed", "changed", "changed"
		}
		changed.Runs[0].Step++
		changed.Runs[0].Status = "running"
		changed.Tickets[0].State = "decided"
		changed.Workers[0].Dead = !changed.Workers[0].Dead
		changed.Tokens[0].Namespace = "changed"
		changed.Cursors[0].Position = []byte(`"changed"`)
		changed.Reservations[0].Reason = "changed"
		changed.Partials[0].Text = "changed"
		changed.Pauses[0].Reason = "changed"
		must(t, tx.Write(changed))
	})
	got := h.everything()
	kept := map[string]string{
		"run": got.Runs[0].Newer, "ticket": got.Tickets[0].Newer, "worker": got.Workers[0].Newer,
		"token": got.Tokens[0].Newer, "reservation": got.Reserved[0].Newer,
	}
	for _, row := range got.Threads {
		kept["thread "+row.ID] = row.Newer
	}
	return kept
}
