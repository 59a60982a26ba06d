package ledger

import (
	"context"

	"mailroom"
	"mailroom/store"
)

// Viewer is a store to read.
type Viewer interface {
	View(ctx context.Context, f func(store.Reader) error) error
}

// CopyIndex indexes the messages of the store to, a copy of the store from, in the order of from. The log of the
// copy is ordered by thread, and its search results would be too. No process may write either store. If entries of
// from are not in its order yet, the server of the copy makes the index.
func CopyIndex(ctx context.Context, from Viewer, to store.Store) error {
	c := indexCopy{from: from, to: to}
	for more := true; more; {
		var err error
		if more, err = c.next(ctx); err != nil {
			return err
		}
	}
	if c.pending || c.state == (store.IndexState{}) {
		return c.write(ctx, func(after *store.IndexState) { after.At, after.Order = store.Position{}, "" })
	}
	end := store.AllEntries{None: true}
	if err := to.View(ctx, func(r store.Reader) error {
		_, err := r.Entries(store.EntryQuery{All: &end})
		return err
	}); err != nil {
		return err
	}
	return c.write(ctx, func(after *store.IndexState) { after.At, after.Order = end.End, end.Order })
}

type indexCopy struct {
	from    Viewer
	to      store.Store
	at      store.Position // position in the order of the source
	state   store.IndexState
	pending bool

	rows, drop []store.IndexRow // of one step, with the keys of the copy
}

// next indexes the next part of the source's log. It reports whether there may be more.
func (c *indexCopy) next(ctx context.Context) (more bool, err error) {
	var entries []mailroom.Entry
	ids := map[int64]string{} // ids by the key in the source
	if err := c.from.View(ctx, func(r store.Reader) error {
		all := &store.AllEntries{After: c.at}
		if entries, err = r.Entries(store.EntryQuery{All: all, Limit: indexedEntries, Bytes: indexedBytes}); err != nil ||
			len(entries) == 0 {
			c.pending = all.Pending
			return err
		}
		c.at = all.Positions[len(entries)-1]
		for i, e := range entries {
			ids[all.Positions[i].Thread] = e.Thread
		}
		c.rows, c.drop, err = indexRows(r, entries, all.Positions)
		return err
	}); err != nil || len(entries) == 0 {
		return false, err
	}
	if err := c.translate(ctx, ids); err != nil {
		return false, err
	}
	return true, c.write(ctx, func(after *store.IndexState) { after.Until = entries[len(entries)-1].At })
}

// translate gives the rows the keys of the copy.
func (c *indexCopy) translate(ctx context.Context, ids map[int64]string) error {
	var wanted []string
	for _, id := range ids {
		wanted = append(wanted, id)
	}
	keys := map[string]int64{}
	if err := c.to.View(ctx, func(r store.Reader) error {
		threads, err := r.Threads(store.ThreadQuery{IDs: wanted})
		for _, t := range threads {
			keys[t.ID] = t.Key
		}
		return err
	}); err != nil {
		return err
	}
	for _, list := range [][]store.IndexRow{c.rows, c.drop} {
		for i := range list {
			list[i].Thread = keys[ids[list[i].Thread]]
		}
	}
	return nil
}

// write adds the rows to the index of the copy, and changes its state.
func (c *indexCopy) write(ctx context.Context, change func(*store.IndexState)) error {
	x := &store.Indexing{Before: c.state, After: c.state, Rows: c.rows, Drop: c.drop}
	x.After.Last += int64(len(c.rows))
	change(&x.After)
	c.rows, c.drop = nil, nil
	if x.After == x.Before && len(x.Rows)+len(x.Drop) == 0 {
		return nil
	}
	err := c.to.Update(ctx, func(tx store.Tx) error { return tx.Write(&store.Changes{Index: x}) })
	if err == nil {
		c.state = x.After
	}
	return err
}
